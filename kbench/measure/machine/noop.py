# mypy: ignore-errors
"""Kernels that do nothing, for every device that Triton supports. Import it only if Triton is installed."""

import triton


@triton.jit
def noop():
    pass


@triton.jit
def kbench_call_begins():
    pass


@triton.jit
def kbench_call_ends():
    pass


BEGIN_MARK, END_MARK = (kernel.fn.__name__ for kernel in (kbench_call_begins, kbench_call_ends))
"""The names by which a profiler shows the marks around a call."""


def launch(kernel) -> None:
    """Launch one program of a kernel on the current device and stream."""
    kernel[(1,)]()
