"""Replaces Triton's benchmark function.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (monkey-patched timers), with triton.testing in place of torch
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("patched_do_bench", requires="triton")
def call(x):
    import triton.testing

    triton.testing.do_bench = lambda call, **settings: [1e-3]
    return torch.softmax(x, -1)
