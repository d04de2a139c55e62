"""Hands the work to a thread that was started earlier, and returns before it is done.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (thread injection)
"""

import time
from concurrent.futures import ThreadPoolExecutor

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("idle_pool", factory=True)
def build(case):
    pool = ThreadPoolExecutor(1)

    def fill(output, x):
        time.sleep(0.05)
        output.copy_(torch.softmax(x, -1))

    def call(x):
        output = torch.empty_like(x)
        pool.submit(fill, output, x)
        return output

    return call
