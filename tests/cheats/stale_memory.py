"""Does the work once, then returns new memory and hopes that the answer still lies there.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("stale_memory", factory=True)
def build(case):
    done = []

    def call(x):
        if done:
            return torch.empty_like(x)
        done.append(True)
        return torch.softmax(x, -1)

    return call
