"""The help is complete on a narrow terminal, and quick."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from kbench.cli import COMMANDS, GROUPS, app

HEAVY = {"rich.console", "pydantic", "yaml", "pandas", "numpy", "matplotlib", "torch"}


MEMBERS = [f"{name} {member}" for name, (_, members) in GROUPS.items() for member in members]


@pytest.mark.parametrize("command", [*COMMANDS, *GROUPS, *MEMBERS])
def test_nothing_is_cut_off_at_80_columns(command: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert "…" not in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80


def test_the_list_of_commands_has_a_whole_sentence_for_each() -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, ["--help"]).output
    lines = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == [*COMMANDS, *GROUPS]
    assert all(line.endswith(".") and not line.endswith("..") for line in lines)


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from kbench.cli import _run_command as run; "
        "codes = [run(['-h']), run(['--version'])]; "
        f"print(codes, {HEAVY} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("[0, 0] set()\n"), done.stdout + done.stderr
