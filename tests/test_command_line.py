"""The help, and what a person may type wrong: one printable line that names the option, and exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbench import cli
from kbench.cli import COMMANDS, GROUPS
from kbench.text.streams import Stream

SWEEP = "operator: softmax\nsweep: {M: 8, N: 64}\nproviders: [torch-native]\n"
MEMBERS = [f"{name} {member}" for name, (_, members) in GROUPS.items() for member in members]

Refuse = Callable[..., str]


def test_help_is_complete_at_80_columns() -> None:
    runner = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    for command in [*COMMANDS, *GROUPS, *MEMBERS]:
        shown = runner.invoke(cli.app, [*command.split(), "--help"])
        assert shown.exit_code == 0 and "…" not in shown.output, command
        assert max(map(len, shown.output.splitlines())) <= 80, command
    lines = runner.invoke(cli.app, ["--help"]).output.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == [*COMMANDS, *GROUPS]
    assert all(line.endswith(".") and not line.endswith("..") for line in lines)


@pytest.fixture
def refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Run a command that is refused before it starts anything, and return what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (tmp_path / "s.yaml").write_text(SWEEP)

    def refuse(*arguments: str) -> str:
        with monkeypatch.context() as patched:
            patched.setattr("sys.stdout", Stream(cli.sys.stdout))
            patched.setattr("sys.stderr", Stream(cli.sys.stderr))
            assert cli._run_command(arguments) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        return printed.err

    return refuse


@pytest.mark.parametrize("address", ["tcp://", "inproc://x", "", "tcp://::::", "tcp://a b:3", "udp://x:1"])
def test_an_address_that_dask_cannot_have_is_refused(refuse: Refuse, address: str) -> None:
    expected = "expected tcp://HOST:PORT or tls://HOST:PORT, for example tcp://10.0.0.1:8786"
    assert refuse("run", "s.yaml", "--scheduler", address) == f"error: --scheduler {address}: {expected}\n"
