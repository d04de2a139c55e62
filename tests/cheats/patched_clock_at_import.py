"""Replaces the clock when it is imported.

Source: https://deep-reinforce.com/defense_kernel_hack.html (monkey-patch timing)
"""

import time

import torch

import kbench

softmax = kbench.operator("softmax")


CLOCK = time.perf_counter
time.perf_counter = lambda: CLOCK() / 100


@softmax.provider("patched_clock_at_import")
def call(x):
    return torch.softmax(x, -1)
