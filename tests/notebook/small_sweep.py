"""A sweep that takes a moment on any host."""

from __future__ import annotations

import torch

SMALL = {
    "operator": "softmax",
    "sweep": {"M": 4, "N": range(8, 17, 8), "dtype": torch.float32},
    "measure": {"rounds": 1, "rep_ms": 1, "warmup_ms": 1},
}
