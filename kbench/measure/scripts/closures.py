"""The names of closures: the functions that they use, by which two closures of one line of a program can be told apart."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from kbench.measure.scripts.closure_tensors import closed_over, code_of
from kbench.text.exception_text import in_library


def place_of_closure(closure: Callable[..., Any]) -> str:
    """`bench.py:31`, the line where a closure of the user's own code begins. Empty for a function of a library, and
    for code that is in no file."""
    code = getattr(closure, "__code__", None)
    if code is None or code.co_filename.startswith("<") or in_library(code.co_filename):
        return ""
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def label_of(closure: Callable[..., Any]) -> str:
    """The name of a closure, unless it is a lambda, and those of the functions that it uses: `relu` for `lambda: fn(x)` and for
    `lambda: F.relu(x)`. If it has and uses none, its words: `torch` for `lambda: functions[provider](x)` and for
    `lambda: functions["torch"](x)`. Empty if there is none either."""
    if isinstance(closure, functools.partial):
        return label_of(closure.func) or _name(closure.func)
    code = code_of(closure)
    if code is None or _uncompiled(closure) is not None:
        return _name(closure)
    own_names = [] if closure.__name__ == "<lambda>" else [closure.__name__]
    if own_names and in_library(code.co_filename):
        return own_names[0]
    variables = closure.__globals__ | closed_over(closure)
    values = [variables[name] for name in (*code.co_freevars, *code.co_names) if name in variables]
    functions = [_name(value) for value in values if _is_function(value)]
    functions += _functions_of_modules(code.co_names, variables)
    words = [value for value in values if isinstance(value, str)]
    if not words:
        keys = {key for value in values if isinstance(value, dict) for key in value}
        words = [constant for constant in code.co_consts if isinstance(constant, str) and constant in keys]
    return " ".join(dict.fromkeys([*own_names, *functions] or words))


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, (type, Tensor)) and bool(_name(value))


def _functions_of_modules(names: tuple[str, ...], variables: Mapping[str, Any]) -> Iterator[str]:
    """The functions that code reads from modules: `relu` for `F.relu`, `linear` for `torch.nn.functional.linear`. `names` are
    those that the code reads, in order."""
    modules: list[ModuleType] = []
    for name in names:
        of_modules = (getattr(module, name) for module in reversed(modules) if hasattr(module, name))
        value = variables[name] if name in variables else next(of_modules, None)
        if isinstance(value, ModuleType):
            modules.append(value)
        elif name not in variables and _is_function(value):
            yield _name(value)


def _name(function: Any) -> str:
    """The name of a function; of one without a name, the line that defines it; of what torch.compile made, `compiled relu`."""
    if (inner := _uncompiled(function)) is not None:
        return f"compiled {_name(inner)}"
    name = str(getattr(function, "__name__", "") or type(function).__name__)
    code = getattr(function, "__code__", None)
    return f"lambda of line {code.co_firstlineno}" if name == "<lambda>" and code else name


def _uncompiled(function: Any) -> Any:
    """What torch.compile made a function or a module of; None for everything else."""
    if type(function).__name__ == "OptimizedModule":
        return function._orig_mod
    attributes = getattr(function, "__dict__", {})  # a module's own attributes may raise
    return None if attributes.get("_torchdynamo_disable") else attributes.get("_torchdynamo_orig_callable")
