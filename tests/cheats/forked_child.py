"""Lets a child process compute into shared memory, and does not wait for it.

Source: https://github.com/gpu-mode/pygpubench/pull/15 (work outside of the measured process)
"""

import os

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("forked_child")
def call(x):
    output = torch.softmax(x, -1)
    if child := os.fork():
        os.waitpid(child, 0)
        return output
    os._exit(0)
