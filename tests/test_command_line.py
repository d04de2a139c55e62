"""What a person may type wrong: one printable line that names the option, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench import cli
from kbench.text.streams import Stream

SWEEP = "operator: softmax\nsweep: {M: 8, N: 64}\nproviders: [torch-native]\n"


@pytest.mark.parametrize("arguments", [[], ["history"]])
def test_without_a_command_the_help_is_shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run_command(arguments) == 2
    told = capsys.readouterr()
    assert told.out.startswith(f"Usage: {' '.join(['kbench', *arguments])} [OPTIONS] COMMAND [ARGS]...\n")
    assert "\n  check " in told.out and told.err == ""


@pytest.fixture
def refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Run a command that is refused before it starts anything, and return what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "s.yaml").write_text(SWEEP)

    def refuse(*arguments: str) -> str:
        with monkeypatch.context() as patched:
            patched.setattr("sys.stdout", Stream(cli.sys.stdout))
            patched.setattr("sys.stderr", Stream(cli.sys.stderr))
            assert cli._run_command(arguments) == 2
        told = capsys.readouterr()
        assert told.out == ""
        return told.err

    return refuse


@pytest.mark.parametrize(
    "address",
    ["tcp://", "ucx://x", "inproc://x", "nonsense", "", "tcp://::::", "tcp://a b:3", "udp://x:1"],
)
def test_an_address_that_dask_cannot_have_is_refused(refuse, address: str) -> None:  # type: ignore[no-untyped-def]
    told = refuse("run", "s.yaml", "--scheduler", address)
    assert (
        told
        == f"error: --scheduler {address}: expected tcp://HOST:PORT or tls://HOST:PORT, for example tcp://10.0.0.1:8786\n"
    )


ESCAPES = "\x1b[2J\x1b]0;owned\x07"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "s.yaml", "--profile", ESCAPES],
        ["run", "s.yaml", "--scheduler", ESCAPES],
        ["run", "s.yaml", "--plugin", ESCAPES],
        ["run", "s.yaml", "--set", ESCAPES],
        ["run", f"{ESCAPES}.yaml"],
        ["run", "s.yaml", "--bogus" + ESCAPES],
        ["compare", ESCAPES, "b.csv"],
        ["plot", ESCAPES],
        ["report", ESCAPES],
        ["explain", ESCAPES],
        ["schema", ESCAPES],
        [ESCAPES],
    ],
)
def test_escape_codes_are_shown_and_not_sent(refuse, arguments: list[str]) -> None:  # type: ignore[no-untyped-def]
    told = refuse(*arguments)
    assert "\\x1b[2J" in told or "\\u001b[2J" in told
    assert all(line.isprintable() for line in told.splitlines())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["check"], "error: Missing argument 'CONFIG'.\nTry 'kbench check -h' for help.\n"),
        (["rum"], "error: No such command 'rum'. Did you mean 'run'?\nTry 'kbench -h' for help.\n"),
        (["run", "s.yaml", "--sessions", "x"], "error: Invalid value for '--sessions': "),
        (["run", "s.yaml", "--bogus"], "error: No such option: --bogus"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_option(refuse, arguments: list[str], told: str) -> None:  # type: ignore[no-untyped-def]
    said = refuse(*arguments)
    assert said.startswith(told) and said.count("\n") == 2


@pytest.mark.parametrize("pair", [("--resume", "--append"), ("--devices=all", "--scheduler=tcp://localhost:8786")])
def test_two_options_that_exclude_each_other_are_one_line(refuse, pair: tuple[str, str]) -> None:  # type: ignore[no-untyped-def]
    first, second = (word.partition("=")[0] for word in pair)
    assert refuse("run", "s.yaml", *pair) == f"error: {first} and {second} cannot be combined; choose one\n"
