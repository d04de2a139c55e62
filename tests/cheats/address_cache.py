"""Remembers its output by the address of the input.

Source: https://github.com/gpu-mode/reference-kernels/pull/102, and
https://github.com/gpu-mode/kernelbot/pull/501
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("address_cache", factory=True)
def build(case):
    remembered = {}

    def call(x):
        if x.data_ptr() not in remembered:
            remembered[x.data_ptr()] = torch.softmax(x, -1)
        return remembered[x.data_ptr()].clone()

    return call
