"""Replaces kbench's own check, so that wrong values pass.

Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/ (models replace the scoring code)
"""

import torch

import kbench
from kbench.measure.correctness import check

softmax = kbench.operator("softmax")


@softmax.provider("patched_check")
def call(x):
    check.compared = lambda expected, outputs: check.Accuracy()
    return torch.zeros_like(x)
