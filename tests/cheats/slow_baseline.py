"""Makes the baseline slow.

Source: no published case; plausible wherever a provider and the baseline share a process
"""

import time

import torch

import kbench

softmax = kbench.operator("softmax")


HONEST = torch.softmax


@softmax.provider("slow_baseline")
def call(x):
    torch.softmax = slow
    return HONEST(x, -1)


def slow(*arguments, **keywords):
    time.sleep(0.01)
    return HONEST(*arguments, **keywords)
