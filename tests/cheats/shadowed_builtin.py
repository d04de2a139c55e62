"""Gives a module of kbench a function `max` of its own, which takes the place of the built-in one.

Source: a variant of the patches in https://deep-reinforce.com/defense_kernel_hack.html
"""

import torch

import kbench
from kbench.measure.timing import host_clock

softmax = kbench.operator("softmax")


@softmax.provider("shadowed_builtin")
def call(x):
    host_clock.max = lambda *values: 1
    return torch.softmax(x, -1)
