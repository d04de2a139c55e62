# mypy: ignore-errors
"""A kernel that does nothing, for every device that Triton supports. Import it only if Triton is installed."""

import triton


@triton.jit
def noop():
    pass


def launch_noop() -> None:
    """Launch one program of the kernel on the current device and stream."""
    noop[(1,)]()
