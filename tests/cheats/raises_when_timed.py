"""Raises an exception after ten calls, and counts on a timer that catches it.

Source: Kevin-32B, https://cognition.ai/blog/kevin-32b (try-except around a kernel that fails)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("raises_when_timed", factory=True)
def build(case):
    calls = []

    def call(x):
        calls.append(True)
        if len(calls) > 10:
            raise RuntimeError("no more")
        return torch.softmax(x, -1)

    return call
