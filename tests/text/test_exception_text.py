"""Where an error is said to come from: code that the reader can open and change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import kbench
from kbench.text import exception_text


def caught(call: Callable[[], object]) -> BaseException:
    """The exception of a call, with the frames below this test's own."""
    try:
        call()
    except (AttributeError, TypeError, ValueError) as error:
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        return error.with_traceback(trace)
    raise AssertionError("it did not fail")


def called_by_kbench(function: Callable[..., object]) -> Callable[[], object]:
    """The call of a provider's function with one input, as a file of kbench makes it."""
    path = Path(exception_text.__file__).parents[1] / "measure" / "steps.py"
    names = {"function": function}
    exec(compile("def call():\n    return function(0, block=1)", str(path), "exec"), names)
    return names["call"]


def test_a_function_that_takes_other_arguments_does_not_fail_in_a_file_of_kbench() -> None:
    def mine(x: object, y: object, *, block: int) -> None: ...

    error = caught(called_by_kbench(mine))
    assert error.__traceback__, "kbench's frame is there, and is not told"
    assert exception_text.describe_exception(error).endswith("missing 1 required positional argument: 'y'")
    assert exception_text.location(error, "my.py") == "my.py"
    assert exception_text.location(caught(lambda: kbench.unifrom), "my.py") == "my.py"


def test_an_error_of_a_library_is_where_the_library_raised_it() -> None:
    place = exception_text.location(caught(lambda: json.loads("{")), "")
    assert Path(place.rpartition(":")[0]).parent == Path(json.__file__).parent


def test_the_colours_of_a_compilers_message_are_left_out() -> None:
    """The message of a compiler that colours even what goes to no terminal: its first line with `error:` counts."""
    error = RuntimeError(
        "\n\x1b[91m\x1b[1merror[INTERNAL]:\x1b[0m no valid IR\n  \x1b[91merror:\x1b[0m IR verification failed: cute.copy\n"
    )
    assert exception_text.message(error) == "error: IR verification failed: cute.copy"
    assert exception_text.message(RuntimeError("\x1b[0m \n")) == "(no message)"
