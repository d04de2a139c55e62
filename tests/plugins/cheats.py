"""Providers that look fast because they do not do the work when the clock runs. Accelerators only."""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("side-stream", factory=True)
def side_stream(case):
    """Works on a stream of its own that nobody waits for."""
    stream = torch.cuda.Stream()

    def call(x):
        with torch.cuda.stream(stream):
            return torch.softmax(x, -1)

    return call


@softmax.provider("by-pointer", factory=True)
def by_pointer(case):
    """Remembers its output by the address of the input."""
    remembered = {}

    def call(x):
        if x.data_ptr() not in remembered:
            remembered[x.data_ptr()] = torch.softmax(x, -1)
        return remembered[x.data_ptr()]

    return call


@softmax.provider("skips-work", factory=True)
def skips_work(case):
    """Does nothing on an input it has seen, and hopes that the memory still holds the answer."""
    seen = []

    def call(x):
        key = (x.data_ptr(), x._version)
        if seen == [key]:
            return torch.empty_like(x)
        seen[:] = [key]
        return torch.softmax(x, -1)

    return call


@softmax.provider("not-capturable")
def not_capturable(x):
    """Honest, but asks the host in between, which a graph cannot."""
    return torch.softmax(x, -1) if x.sum().item() < 1e30 else x.clone()
