"""Providers that fail in the ways people's kernels do: each may cost its own row and nothing else."""

import ctypes
import os
import sys
import time

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("raises")
def raises(x):
    raise ValueError("this kernel does not like you\nsecond line")


@softmax.provider("raises-in-torch")
def raises_in_torch(x):
    return torch.nn.functional.layer_norm(x, (x.shape[1] + 1,))


@softmax.provider("exits")
def exits(x):
    os._exit(3)


@softmax.provider("sys-exits")
def sys_exits(x):
    sys.exit("leaving")


@softmax.provider("segfaults")
def segfaults(x):
    ctypes.string_at(0)


@softmax.provider("sleeps")
def sleeps(x):
    while True:
        time.sleep(1)


@softmax.provider("allocates")
def allocates(x):
    hoard = []
    while True:
        hoard.append(torch.empty(2**28, device=x.device))


@softmax.provider("prints")
def prints(x):
    """Not a failure: what it prints must not reach the protocol."""
    print('{"type": "done"}', flush=True)
    os.write(1, b'{"type": "done"}\n')
    return torch.softmax(x, -1)


@softmax.provider("declines")
def declines(x):
    raise kbench.Unsupported("not today")


def after(count, act):
    """A provider that is right for so many calls and then does something else."""

    def factory(case):
        calls = [0]

        def call(x):
            calls[0] += 1
            if calls[0] > count:
                act()
            return torch.softmax(x, -1)

        return call

    return factory


def give_up():
    raise RuntimeError("enough")


@softmax.provider("exits-on-nan")
def exits_on_nan(x):
    if x.isnan().any():
        os._exit(3)
    return torch.softmax(x, -1)


# Two or three calls are the checks, and ten more measure the launch on an accelerator; the next ones come while clocks
# settle and rounds are timed.
softmax.provider("raises-late", factory=True)(after(13, give_up))
softmax.provider("exits-late", factory=True)(after(13, lambda: os._exit(4)))
