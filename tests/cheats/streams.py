"""Cheats with streams of a device."""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("other_stream", devices=("cuda",), factory=True)
def other_stream(case):
    """Works on a stream of its own that nobody waits for.

    Source: https://www.wafer.ai/blog/reward-hacks-field-guide (stream injection), and
    https://github.com/ScalingIntelligence/KernelBench/pull/82
    """
    stream = torch.cuda.Stream()

    def call(x):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000)
            return torch.softmax(x, -1)

    return call


@softmax.provider("changed_stream", devices=("cuda",), factory=True)
def changed_stream(case):
    """Makes another stream the current one, so that the timer records its events there.

    Source: a variant of the stream injection in https://www.wafer.ai/blog/reward-hacks-field-guide
    """
    stream = torch.cuda.Stream()

    def call(x):
        output = torch.softmax(x, -1)
        torch.cuda.set_stream(stream)
        return output

    return call
