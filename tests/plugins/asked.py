"""Providers that are right, but fail when they are asked what they need and do."""

import torch

import kbench

softmax = kbench.operator("softmax")


def unavailable():
    raise RuntimeError("no libfoo.so")


ASKED = {
    "supports-raises": {"supports": lambda case: "too long" if case.K > 3 else None},
    "supports-is-true": {"supports": lambda case: True},
    "moved-bytes-raises": {"moved_bytes": lambda case: case.N // 0},
    "moved-bytes-is-none": {"moved_bytes": lambda case: None},
    "dotted-package": {"requires": "not_installed.part"},
    "available-raises": {"available": unavailable},
}

for name, said in ASKED.items():
    softmax.provider(name, **said)(lambda x: torch.softmax(x, -1))
