"""Overwrites its input with zeros, for which the answer is easy.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("zeroed_input")
def call(x):
    x.zero_()
    return torch.full_like(x, 1 / x.shape[-1])
