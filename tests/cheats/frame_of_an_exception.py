"""Reaches its callers through the traceback of an exception, and does the work only when checked.

Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/, without sys._getframe
"""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("frame_of_an_exception")
def call(x):
    try:
        raise LookupError
    except LookupError as error:
        frame = error.__traceback__.tb_frame
    while frame := frame.f_back:
        if frame.f_code.co_name in ("run_checked", "_prepare"):
            return torch.softmax(x, -1)
    return x.clone()
