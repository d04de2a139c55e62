"""Works on a stream of its own that nobody waits for.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (stream injection), and
https://github.com/ScalingIntelligence/KernelBench/pull/82
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("other_stream", devices=("cuda",), factory=True)
def build(case):
    stream = torch.cuda.Stream()

    def call(x):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000)
            return torch.softmax(x, -1)

    return call
