"""Computes in bfloat16 and returns float32.

Source: https://deep-reinforce.com/defense_kernel_hack.html (precision downgrade)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("lower_precision")
def call(x):
    return torch.softmax(x.bfloat16(), -1).float()
