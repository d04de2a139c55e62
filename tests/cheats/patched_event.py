"""Replaces the method of CUDA events that tells the time between two of them.

Source: https://github.com/gpu-mode/reference-kernels/issues/162 (timer patch), and https://github.com/NVIDIA/SOL-ExecBench
(reward_hack.py)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("patched_event")
def call(x):
    torch.cuda.Event.elapsed_time = lambda start, end: 1e-3
    return torch.softmax(x, -1)
