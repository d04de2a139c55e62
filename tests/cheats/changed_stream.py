"""Makes another stream the current one, so that the timer records its events there.

Source: a variant of the stream injection in https://www.wafer.ai/blog/reward-hacks-field-guide
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("changed_stream", devices=("cuda",), factory=True)
def build(case):
    stream = torch.cuda.Stream()

    def call(x):
        output = torch.softmax(x, -1)
        torch.cuda.set_stream(stream)
        return output

    return call
