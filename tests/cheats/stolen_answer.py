"""Looks in the memory of the process for a tensor that holds the expected output.

Source: https://github.com/gpu-mode/pygpubench/pull/7 (`submission_gc_copy`)
"""

import gc

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("stolen_answer")
def call(x):
    for found in gc.get_objects():
        if type(found) is torch.Tensor and found.dtype == torch.float64 and found.shape == x.shape:
            return found.to(x.dtype)
    return torch.softmax(x, -1)
