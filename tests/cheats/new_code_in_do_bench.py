"""Keeps Triton's benchmark function, but gives it other code: a check of identity sees nothing.

Source: https://github.com/NVIDIA/SOL-ExecBench (reward_hack.py) checks functions by `id`; this is the way around it
"""

import torch

import kbench

softmax = kbench.operator("softmax")


def fast(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    return [1e-3]


@softmax.provider("new_code_in_do_bench", requires="triton")
def call(x):
    import triton.testing

    triton.testing.do_bench.__code__ = fast.__code__
    return torch.softmax(x, -1)
