"""Makes a host with no accelerator look as if it had three, for tests of --devices: each worker "sees" those that
CUDA_VISIBLE_DEVICES leaves it, and measures on the host. Device 1 fails for good where a provider has marked it."""

import os
import time
from pathlib import Path

import torch

import kbench
from kbench.measure import catalog
from kbench.measure.machine import device
from kbench.protocol import DeviceInfo

SEEN = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2").split(",")
DEAD = Path("device-1-is-dead")


def devices(kind):
    return [DeviceInfo("cpu", "stand-in", int(n), f"GPU-{n}{n}{n}{n}", {"CUDA_VISIBLE_DEVICES": n}) for n in SEEN]


catalog.devices = devices
device.Device.index = property(lambda self: devices("")[0].index)
device.Device.uuid = property(lambda self: devices("")[0].uuid)

if SEEN == ["1"] and DEAD.exists():
    os._exit(9)

softmax = kbench.operator("softmax")


@softmax.provider("together")
def together(x):
    """Waits until another device is at work too."""
    Path(f"begun-{SEEN[0]}").touch()
    while len(list(Path().glob("begun-*"))) < 2:
        time.sleep(0.01)
    return torch.softmax(x, -1)


@softmax.provider("breaks-device-1")
def breaks_device_1(x):
    if SEEN == ["1"]:
        DEAD.touch()
        os._exit(9)
    while not DEAD.exists():
        time.sleep(0.01)
    return torch.softmax(x, -1)
