"""Returns the same value everywhere, which lies within common absolute tolerances.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (constant output)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("constant_output")
def call(x):
    return torch.full_like(x, 1 / x.shape[-1])
