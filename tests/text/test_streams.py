"""What kbench prints: in every encoding, to readers that have gone, full disks and closed streams, and never an escape code,
an endless line or a command to GitHub that is not kbench's own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.text import terminal
from kbench.text.streams import Stream

posix = pytest.mark.skipif(sys.platform == "win32", reason="streams as POSIX has them")

SWEEP = """
operator: softmax
sweep: {M: 8, N: [64, 128, 192], dtype: float32}
providers: [torch-native]
measure: {warmup_ms: 1, rep_ms: 2, rounds: 1}
"""


def printed(*texts: str, encoding: str = "utf-8") -> str:
    buffer = io.BytesIO()
    stream = Stream(io.TextIOWrapper(buffer, encoding=encoding, newline="\n"))
    for text in texts:
        stream.write(text)
    stream.flush()
    assert stream.failure is None
    return buffer.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext, µ\n\nmore\n", "plain\ttext, µ\n\nmore\n"),
        ("\x1b]0;owned\x07\x1b[2J\x1b[31mred\n", "\\x1b]0;owned\\x07\\x1b[2J\\x1b[31mred\n"),
        ("over\rwritten\r\n", "over\\rwritten\n"),
        ("a\u2028b \udcff \x85\n", "a\\u2028b \\udcff \\x85\n"),
        ("::error file=a.py::owned\n", "\\::error file=a.py::owned\n"),
        ("fine\n  ::stop-commands::x\n", "fine\n  \\::stop-commands::x\n"),
        ("no command: a::b\n", "no command: a::b\n"),
        ("x ##[error]owned\n", "x #\\#[error]owned\n"),
    ],
)
def test_lines_are_harmless(text: str, shown: str) -> None:
    assert printed(text) == shown


def test_an_indented_line_is_printed_in_the_narrowest_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    terminal.print_paragraph("nvcc is not on PATH", indent=2)
    assert capsys.readouterr().out.split() == ["nvcc", "is", "not", "on", "PATH"]


def test_a_line_that_is_printed_in_pieces_is_no_command_either() -> None:
    assert printed("a\n", " ", "::add-mask::b\n", "c: ", "::d\n") == "a\n \\::add-mask::b\nc: ::d\n"


def test_colours_stay_on_a_terminal_and_nothing_else_does() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    inner = Terminal()
    Stream(inner).write("\x1b[1;31mred\x1b[0m \x1b[2Jgone \x1b]0;owned\x07\n\x1b[0m::error::x\n")
    assert inner.getvalue() == "\x1b[1;31mred\x1b[0m \\x1b[2Jgone \\x1b]0;owned\\x07\n\x1b[0m\\::error::x\n"


def kbench_in_shell(
    folder: Path, arguments: Sequence[str], redirections: str, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """kbench as a shell starts it."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "kbench", *arguments]
    return subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, timeout=120)


@posix
@pytest.mark.parametrize("redirections", [">&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_streams_that_are_closed_or_full_are_not_missed(tmp_path: Path, redirections: str) -> None:
    done = kbench_in_shell(tmp_path, ["explain", "noisy"], redirections)
    assert (done.returncode, done.stderr) == (0, b"")


@posix
def test_a_full_disk_behind_stdout_is_an_error_in_one_line(tmp_path: Path) -> None:
    done = kbench_in_shell(tmp_path, ["explain", "noisy"], ">/dev/full")
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error: stdout cannot be written (No space left on device)")
    assert done.stderr.count(b"\n") == 1


@posix
def test_a_pipe_that_does_not_block_loses_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    code = "from kbench.text import streams; streams.replace_standard_streams(); print(('y' * 99 + '\\n') * 10_000)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=writer) as process:
        os.close(writer)
        time.sleep(0.5)  # more than the pipe holds is written meanwhile
        with os.fdopen(reader) as stream:
            assert len(stream.read()) == 10_000 * 100 + 1
    assert process.returncode == 0
