"""Errors and notes in the words of the Python API. kbench writes them for the command line, so they name its options.
The caller of a Python function reads the names of its parameters instead."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from kbench.errors import ConfigError, KbenchError, SourceLocation

OTHER_NAMES = {
    "append": ("continuing", 'continuing="append"'),
    "format": ("formats", "formats"),
    "plugin": ("plugins", "plugins"),
    "resume": ("continuing", 'continuing="resume"'),
    "set": ("sets", "sets"),
}
"""By option, the parameter that has another name, and what to call it. All other parameters are called as their options are."""

_OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def name_parameters(text: str, parameters: Collection[str]) -> str:
    """The text with `` `devices` `` in place of `--devices`. Options that are none of the parameters stay."""

    def name(option: re.Match[str]) -> str:
        word = option[1].replace("-", "_")
        parameter, shown = OTHER_NAMES.get(word, (word, word))
        return f"`{shown}`" if parameter in parameters else option[0]

    return _OPTION.sub(name, text)


def errors_name_parameters(function: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
    """Decorates a function of the Python API: kbench's errors in it name the function's parameters, not options."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
        try:
            return function(*args, **kwargs)
        except KbenchError as error:
            if isinstance(error, ConfigError):
                error.issues = tuple(
                    issue._replace(
                        where=_renamed(issue.where, parameters), message=name_parameters(issue.message, parameters)
                    )
                    for issue in error.issues
                )
            error.args = (name_parameters(str(error), parameters),)
            raise

    return wrapped


def _renamed(where: SourceLocation, parameters: Collection[str]) -> SourceLocation:
    """A place in a file stays: its name may look like an option."""
    return where if where.line else SourceLocation(name_parameters(where.source, parameters))
