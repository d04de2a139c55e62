"""Sets more threads than the config allows.

Source: the setting `threads` of kbench; a plausible cheat on a host
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("more_threads")
def call(x):
    torch.set_num_threads(2)
    return torch.softmax(x, -1)
