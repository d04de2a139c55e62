"""Replaces the active driver of Triton, which flushes the cache before each call of do_bench.

Source: no published case; plausible wherever the flush is a method of an object that can be replaced
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("replaced_driver", requires="triton")
def call(x):
    from triton.runtime import driver

    driver.set_active(object())
    return torch.softmax(x, -1)
