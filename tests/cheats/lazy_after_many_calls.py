"""Stops working after thirty calls.

Source: https://github.com/gpu-mode/pygpubench/pull/7 (`submission_warmup`), and https://www.wafer.ai/blog/reward-hacks-
field-guide
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("lazy_after_many_calls", factory=True)
def build(case):
    calls = []

    def call(x):
        calls.append(True)
        return torch.softmax(x, -1) if len(calls) < 30 else torch.empty_like(x)

    return call
