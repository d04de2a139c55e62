"""Returns one buffer from every call, and writes to it again when the input changes.

Source: CUDA-L1, https://arxiv.org/abs/2507.14111 (caching of results)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("same_memory", factory=True)
def build(case):
    kept = []

    def call(x):
        if not kept:
            kept.append(torch.empty_like(x))
        return kept[0].copy_(torch.softmax(x, -1))

    return call
