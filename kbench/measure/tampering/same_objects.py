"""Whether two lists hold the same objects.

`==` does not tell, because it asks objects that differ whether they are equal, and an object of a provider may lie. To compare
ten thousand pairs with `is` takes a tenth of a millisecond. CPython stores the addresses of a list's objects in one block of
memory. To compare two such blocks takes a fiftieth of that time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from operator import is_
from typing import Any

POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
BLOCK_FIELD = list.__basicsize__ - 2 * POINTER_BYTES
"""Where in a list CPython stores the address of the block: before the last field, which is the size of the block."""

_pointer_at, _Byte = ctypes.c_void_p.from_address, ctypes.c_char


def _one_by_one(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(is_, a, b))


def _by_block(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and (not a or _block(a) == _block(b))


def _block(objects: list[Any]) -> bytes:
    start = _pointer_at(id(objects) + BLOCK_FIELD).value
    assert start is not None
    return (_Byte * (len(objects) * POINTER_BYTES)).from_address(start).raw


def _reads_blocks() -> bool:
    if sys.implementation.name != "cpython":
        return False
    objects = [object(), None, object()]
    return _block(objects) == b"".join(id(each).to_bytes(POINTER_BYTES, sys.byteorder) for each in objects)


same_objects: Callable[[list[Any], list[Any]], bool] = _by_block if _reads_blocks() else _one_by_one
"""Whether two lists hold the same objects in the same order."""
