"""Returns a list that computes its tensor when somebody reads it, after the clock has stopped.

Source: the lazy evaluation of https://www.wafer.ai/blog/reward-hacks-field-guide, with a list in the place of the tensor.
"""

import torch

import kbench

softmax = kbench.operator("softmax")


class Lazy(list):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def __len__(self):
        return 1

    def __iter__(self):
        yield self.compute()

    def __getitem__(self, index):
        return self.compute()


@softmax.provider("lazy_container")
def call(x):
    return Lazy(lambda: torch.softmax(x, -1))
