"""How torch.compile runs a call: with code for the sizes of this case, with code for several sizes, or not compiled.

Dynamo compiles a function anew for other sizes. Where the limit of recompilations is reached, it runs the function as it is
written, and says so at the first time only. So kbench looks at the code that runs in a call.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

SEVERAL_SIZES = re.compile(r"check_tensor\(.*\bsize=\[[^]]*None")
"""The guard of a tensor of which one size may be any: `check_tensor(L['x'], ..., size=[4, None], stride=[None, 1])`."""


class OperatorMode(TorchDispatchMode):
    """A context that sees the operators that torch dispatches."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch asks this. With True it imports its compiler, and goes through it at every call."""
        return False


@cache
def writes_of(func: Any) -> list[bool | None]:
    """For each result of an operator: whether it is an argument, changed in place (True) or as a view, without new values
    (False); None for a new tensor. torch takes microseconds to say so. An operator of higher order says nothing."""
    schema = getattr(func, "_schema", None)
    return [x.alias_info and x.alias_info.is_write for x in schema.returns] if schema else []


@dataclass
class CompiledParts:
    """What torch.compile ran in a call other than code for the sizes of the call.

    uncompiled  the functions that it ran as they are written, because it has compiled them too often: `f (mine.py:12)`
    dynamic     whether it ran code for several sizes
    """

    uncompiled: set[str] = field(default_factory=set)
    dynamic: bool = False


@contextmanager
def compiled_parts() -> Iterator[CompiledParts]:
    """Watch a call, which has been made before: to compile takes long when it is watched."""
    parts = CompiledParts()
    if "torch._dynamo" not in sys.modules:
        yield parts
        return
    from torch._C._dynamo import eval_frame
    from torch._dynamo import utils

    entries_of: Any = getattr(eval_frame, "_debug_get_cache_entry_list", lambda code: ())
    dynamo_mode: Any = getattr(eval_frame, "get_eval_frame_callback", lambda: None)
    originals: Any = getattr(utils, "orig_code_map", {})

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call":
            return
        # it may run what is compiled, but must not compile
        if dynamo_mode() is False and entries_of(code):
            parts.uncompiled.add(f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})")
        elif code in originals:
            entries = [entry for entry in entries_of(originals[code]) if entry.code is code]
            parts.dynamic |= any(map(_serves_several_sizes, entries))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield parts
    finally:
        sys.setprofile(before)


def _serves_several_sizes(entry: Any) -> bool:
    guards = getattr(getattr(entry, "guard_manager", None), "code_parts", ())
    return any(SEVERAL_SIZES.search(guard) for guard in guards)
