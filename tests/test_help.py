"""The help is complete on a narrow terminal."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from kbench.cli import app

COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands if command.callback)


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_cut_off_at_80_columns(command: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, [command, "--help"])
    assert shown.exit_code == 0
    assert "…" not in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
