"""The sentence about the fastest provider, where times are suspect."""

from __future__ import annotations

import pytest
from making import row

from kbench.analysis import analyse
from kbench.results.row import Row


def rows(provider: str, *suspect: bool) -> list[Row]:
    return [row(n, provider=provider, flags=("suspect",) if each else ()) for n, each in enumerate(suspect, 1)]


def test_a_file_of_suspect_times_does_not_say_that_nothing_was_timed() -> None:
    text = analyse([*rows("mine", True, True), *rows("torch", True, True)]).headline()
    assert (
        text.startswith("Every provider is suspect in every case in which it was timed") and "explain suspect" in text
    )
    assert analyse([]).headline() == "No provider was timed."


@pytest.mark.parametrize(
    ("suspect", "said"),
    [
        ((False, False, False), "mine was timed in 3 of 3 cases; there is no provider"),
        (
            (True, False, True),
            "mine was timed in 3 of 3 cases, but the times of 2 cases are suspect; there is no provider",
        ),
    ],
)
def test_a_provider_alone_was_also_timed_where_it_is_suspect(suspect: tuple[bool, ...], said: str) -> None:
    assert analyse(rows("mine", *suspect)).headline().startswith(said)
