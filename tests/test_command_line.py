"""The help of every command, as a narrow terminal shows it."""

from __future__ import annotations

from typer.testing import CliRunner

from kbench import cli
from kbench.cli import COMMANDS, GROUPS

MEMBERS = [f"{name} {member}" for name, (_, members) in GROUPS.items() for member in members]


def test_help_is_complete_at_80_columns() -> None:
    runner = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    for command in [*COMMANDS, *GROUPS, *MEMBERS]:
        shown = runner.invoke(cli.app, [*command.split(), "--help"])
        assert shown.exit_code == 0 and "…" not in shown.output, command
        assert max(map(len, shown.output.splitlines())) <= 80, command
    lines = runner.invoke(cli.app, ["--help"]).output.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == [*COMMANDS, *GROUPS]
    assert all(line.endswith(".") and not line.endswith("..") for line in lines)
