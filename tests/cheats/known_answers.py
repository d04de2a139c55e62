"""Keeps the answers to all inputs that it has ever seen, by a hash of the values: the seed is known.

Source: https://github.com/gpu-mode/pygpubench/pull/7 (known seeds), and https://github.com/gpu-mode/reference-
kernels/pull/142
"""

import torch

import kbench

softmax = kbench.operator("softmax")


ANSWERS = {}


@softmax.provider("known_answers")
def call(x):
    key = hash(tuple(x[0].tolist()))
    if key not in ANSWERS:
        ANSWERS[key] = torch.softmax(x, -1)
    return ANSWERS[key].clone()
