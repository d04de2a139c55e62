"""Makes the baseline slow: replaces the kernel that torch's softmax calls.

Source: no published case; `flag_gems.enable()` replaces kernels in this way in good faith
"""

import time
import warnings

import torch

import kbench

softmax = kbench.operator("softmax")
library = torch.library.Library("aten", "IMPL")


def exact(x, dim, half_to_float=False):
    numerator = (x - x.amax(dim, keepdim=True)).exp()
    return numerator / numerator.sum(dim, keepdim=True)


def slow(*arguments):
    time.sleep(0.01)
    return exact(*arguments)


@softmax.provider("replaced_operator", factory=True)
def build(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for device in ("CPU", "CUDA"):
            library.impl("_softmax", slow, device)
    return lambda x: exact(x, -1)
