"""Tables as a terminal shows them."""

from __future__ import annotations

import pytest

from kbench.text import terminal


def test_names_with_brackets_are_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    name = "triton-row[num_warps=4]"
    terminal.print_table(("N", f"vs {name}"), [["64", name], ["a\\[b]", "[red]"]])
    shown = capsys.readouterr().out
    assert "\x1b[1m" in shown, "not the table of a terminal: this test proves nothing"
    assert shown.count(name) == 2 and f"vs {name}" in shown
    assert "a\\[b]" in shown and "[red]" in shown
