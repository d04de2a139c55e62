"""Replaces the clock by one that runs a hundred times as slowly.

Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/, and https://deep-reinforce.com/defense_kernel_hack.html
(monkey-patch timing)
"""

import time

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("patched_clock")
def call(x):
    time.perf_counter_ns = lambda: CLOCK() // 100
    return torch.softmax(x, -1)


CLOCK = time.perf_counter_ns
