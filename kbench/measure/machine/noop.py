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


def launch_noop() -> None:
    """Launch one program of the kernel on the current device and stream."""
    noop[(1,)]()


def mark_begin() -> None:
    """Launch the mark that comes before a call, on the current device and stream."""
    kbench_call_begins[(1,)]()


def mark_end() -> None:
    """Launch the mark that comes after a call."""
    kbench_call_ends[(1,)]()
