"""Looks at its callers, and does the work only when the check calls it.

Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/ (the model walks up the call stack)
"""

import sys

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("only_when_checked")
def call(x):
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name in ("run_checked", "_prepare"):
            return torch.softmax(x, -1)
    return x.clone()
