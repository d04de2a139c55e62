"""Enters a mode that sees every function of torch from then on, also those that the check calls.

Source: a variant of the patches in https://deep-reinforce.com/defense_kernel_hack.html
"""

import torch
from torch.overrides import TorchFunctionMode

import kbench

softmax = kbench.operator("softmax")


class Intercept(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


@softmax.provider("intercepted_torch")
def call(x):
    Intercept().__enter__()
    return torch.softmax(x, -1)
