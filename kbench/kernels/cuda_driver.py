"""What torch does not offer of NVIDIA's driver: some calls, and a limit of launches."""

from __future__ import annotations

import ctypes
import functools
import sys

import torch

LARGEST_GRID = 2**31 - 1
"""Blocks, or Triton's programs, that a launch can have in its first dimension."""

LARGEST_GRID_Y = 2**16 - 1
"""The same in its second dimension."""

NOT_SUPPORTED = 801
"""The driver's error for a feature that the device does not have."""


def reset_persisting_cache() -> None:
    """Drop the lines that kernels asked the L2 cache of the current device to keep. No effect on AMD. Raises RuntimeError."""
    if driver := library():
        _check("cuCtxResetPersistingL2Cache", driver.cuCtxResetPersistingL2Cache(), NOT_SUPPORTED)


def capture_id(stream: int) -> int | None:
    """The number of the capture into a CUDA graph in which a stream takes part; no other capture has the same number.

    None where the driver does not report it, as on AMD. Raises RuntimeError.
    """
    driver = library()
    if driver is None:
        return None
    status, number = ctypes.c_int(), ctypes.c_uint64()
    get = driver.cuStreamGetCaptureInfo_v2
    error = get(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None)
    _check("cuStreamGetCaptureInfo", error)
    return number.value


@functools.cache
def library() -> ctypes.CDLL | None:
    """NVIDIA's driver; None on AMD."""
    if torch.version.hip:
        return None
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _check(call: str, error: int, *harmless: int) -> None:
    if error not in (0, *harmless):
        raise RuntimeError(f"{call} failed with CUDA error {error}")
