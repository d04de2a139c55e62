"""Changes settings of torch for the whole process: other providers then compute with them, too.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (precision settings)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("global_state")
def call(x):
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_default_dtype(torch.float16)
    return torch.softmax(x, -1)
