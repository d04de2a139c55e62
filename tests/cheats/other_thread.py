"""Returns memory that a thread fills later.

Source: https://deep-reinforce.com/defense_kernel_hack.html (thread injection), and https://www.wafer.ai/blog/reward-hacks-
field-guide
"""

import threading
import time

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("other_thread")
def call(x):
    output = torch.empty_like(x)

    def fill():
        time.sleep(0.5)  # a busy machine may look for threads late
        output.copy_(torch.softmax(x, -1))

    threading.Thread(target=fill, name="fill", daemon=True).start()
    return output
