"""Cheats that look at their callers, search the memory of the process, or leave the process."""

import gc
import os
import sys

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("only_when_checked")
def only_when_checked(x):
    """Looks at its callers, and does the work only when the check calls it.

    Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/ (the model walks up the call stack)
    """
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name in ("run_checked", "_prepare"):
            return torch.softmax(x, -1)
    return x.clone()


@softmax.provider("frame_of_an_exception")
def frame_of_an_exception(x):
    """Reaches its callers through the traceback of an exception, and does the work only when checked.

    Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/, without sys._getframe
    """
    try:
        raise LookupError
    except LookupError as error:
        frame = error.__traceback__.tb_frame
    while frame := frame.f_back:
        if frame.f_code.co_name in ("run_checked", "_prepare"):
            return torch.softmax(x, -1)
    return x.clone()


@softmax.provider("stolen_answer")
def stolen_answer(x):
    """Looks in the memory of the process for a tensor that holds the expected output.

    Source: https://github.com/gpu-mode/pygpubench/pull/7 (`submission_gc_copy`)
    """
    for found in gc.get_objects():
        if type(found) is torch.Tensor and found.dtype == torch.float64 and found.shape == x.shape:
            return found.to(x.dtype)
    return torch.softmax(x, -1)


@softmax.provider("forked_child")
def forked_child(x):
    """Lets a child process compute into shared memory, and does not wait for it.

    Source: https://github.com/gpu-mode/pygpubench/pull/15 (work outside of the measured process)
    """
    output = torch.softmax(x, -1)
    if child := os.fork():
        os.waitpid(child, 0)
        return output
    os._exit(0)
