"""Text from elsewhere in one line, without control characters, of bounded length."""

from __future__ import annotations

import pytest

from kbench.text.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, µ and ™", "plain text, µ and ™"),
        ("two\nlines\r\n\tand a tab", "two lines and a tab"),
        ("\x1b]0;owned\x07\x1b[2J", r"\x1b]0;owned\x07\x1b[2J"),
        ("a\x00b", r"a\x00b"),
        ("turned \u202e round", r"turned \u202e round"),
        ("lone \udcff surrogate", r"lone \udcff surrogate"),
        ("a\u2028b\u2029c", "a b c"),
    ],
)
def test_text_shows_what_it_holds(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(text).isprintable()
    printable(text).encode("utf-8")


def test_long_text_is_cut_once_and_says_how_long_it_was() -> None:
    cut = printable("x" * 300_000, 40)
    assert cut == "x" * 16 + " ... (300000 characters)" and printable(cut, 40) == cut
    assert printable("x" * 40, 40) == "x" * 40
