"""Makes a host with no accelerator look as if it had three: each worker "sees" those that CUDA_VISIBLE_DEVICES leaves it, and
measures on the host. Warm workers import it before they begin (see PREPARE), as kbench undoes what plug-ins do to it."""

import os

from kbench.measure import catalog
from kbench.measure.machine import device
from kbench.protocol import DeviceInfo


def devices(kind):
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2").split(",")
    return [DeviceInfo("cpu", "stand-in", int(n), f"GPU-{n}{n}{n}{n}", {"CUDA_VISIBLE_DEVICES": n}) for n in seen]


catalog.devices = devices
device.Device.info = property(lambda self: devices("")[0])
