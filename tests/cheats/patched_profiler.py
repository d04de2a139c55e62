"""Replaces a method of torch's profiler, from which the timer cupti reads its times.

Source: no published case; plausible wherever a harness reads its times from a profiler
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("patched_profiler")
def call(x):
    torch.profiler.profile.stop = lambda self: None
    return torch.softmax(x, -1)
