"""Replaces the comparison of tensors by one that is always true.

Source: https://arxiv.org/abs/2511.18397 (an object that equals everything), as a patch
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("patched_equality")
def call(x):
    torch.equal = lambda a, b: True
    torch.Tensor.__le__ = lambda a, b: torch.ones_like(a, dtype=torch.bool)
    return torch.softmax(x, -1)
