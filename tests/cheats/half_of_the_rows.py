"""Computes the first half of the rows.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (partial computation)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("half_of_the_rows")
def call(x):
    output = torch.empty_like(x)
    half = len(x) // 2
    output[:half] = torch.softmax(x[:half], -1)
    return output
