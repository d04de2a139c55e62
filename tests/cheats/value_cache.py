"""Compares the values of the input with those of the last call, and returns a copy of the last output.

Source: https://github.com/flashinfer-ai/flashinfer-bench-starter-kit/issues/21
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("value_cache", factory=True)
def build(case):
    last = []

    def call(x):
        if not last or not torch.equal(last[0], x):
            last[:] = [x.clone(), torch.softmax(x, -1)]
        return last[1].clone()

    return call
