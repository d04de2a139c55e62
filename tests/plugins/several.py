"""Providers for tests of --devices, on a host that looks as if it had three (several_devices.py). Device 1 fails for good
where a provider has marked it."""

import os
import time
from pathlib import Path

import torch

import kbench

SEEN = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2").split(",")
DEAD = Path("device-1-is-dead")


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
