"""Runs a program whose calls of do_bench are measured in place, and writes what it measures as rows.

The program keeps its terminal, its arguments and its working folder. Its processes append messages to a file: first one that
describes their machine, then the rows. This process reads them, and writes the results file.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from kbench import interrupts
from kbench.errors import ExitStatus, UsageError
from kbench.execute.environment_record import EnvironmentRecord, describe_command
from kbench.execute.writer import Writer, check_writable
from kbench.protocol import Catalog, MachineInfo, ProtocolError, Rows, decode
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.sources.scripts import in_place_variables

ROWS_POLL_S = 0.2
"""How often to look for new rows."""

END_LIMIT_S = 5.0
"""How long a program may take to end after Ctrl-C."""


@dataclass
class ProgramResult:
    """How a program ended, and the rows that it measured.

    csv          the results file; None if nothing was measured
    code         the exit code of the program
    interpreted  whether Triton's interpreter ran a call, so that it has no row
    """

    code: int
    csv: Path | None = None
    rows: list[Row] = field(default_factory=list)
    moved: list[Path] = field(default_factory=list)
    interrupted: bool = False
    interpreted: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code of kbench: that of the program, or 128 and the number of the signal that ended it, as in shells. If the
        program did well, it says whether anything was measured."""
        if self.interrupted:
            return ExitStatus.INTERRUPTED
        if self.code:
            return self.code if self.code > 0 else 128 - self.code
        return ExitStatus.OK if any(row.status is Status.OK for row in self.rows) else ExitStatus.NOTHING


def program_name(command: Sequence[str]) -> str:
    """What the results of a command are called: `bench` for `python -u tests/bench.py --size 3`."""
    words = [word for word in command if word]
    script = next((Path(word).stem for word in words if word.endswith(".py")), None)
    module = words[words.index("-m") + 1 : words.index("-m") + 2] if "-m" in words else []
    return script or (module[0] if module else Path(words[0]).stem)


def run_program(command: Sequence[str], out: Path, note: Callable[[str], None]) -> ProgramResult:
    """Run a command to its end. Raises UsageError if it cannot be started, and ResultsError."""
    name = program_name(command)
    path = out / f"{name}.csv"
    check_writable(path)
    with tempfile.TemporaryDirectory(prefix="kbench-") as folder, interrupts.once():
        messages = Path(folder) / "messages"
        messages.touch()
        environment = {**os.environ, **in_place_variables(messages, name)}
        try:
            process = subprocess.Popen(list(command), env=environment)
        except OSError as error:
            advice = "give the path of a program that can be run"
            if command[0].endswith(".py") and Path(command[0]).is_file():
                advice = f"run it with Python: kbench exec -- python {shlex.join(command)}"
            elif len(command) == 1 and len(command[0].split()) > 1:
                advice = "give the program and its arguments as separate words, not as one word in quotes"
            raise UsageError(f"{command[0]}: cannot be started ({error.strerror}); {advice}") from None
        return _collect(process, messages, path, note)


def _collect(
    process: subprocess.Popen[bytes], messages: Path, path: Path, note: Callable[[str], None]
) -> ProgramResult:
    """Write the rows of a program as they come, until it ends."""
    outcome, reader, ended = ProgramResult(0), _Reader(messages), False
    results = _Results(path, outcome, note)
    unwritten: deque[_Measured] = deque()
    try:
        while not ended or unwritten:
            try:
                ended = ended or _has_ended(process)
                unwritten.extend(reader.new())
                while unwritten:
                    if unwritten[0].rows:
                        results.write(unwritten[0])
                    else:
                        outcome.interpreted = True
                    unwritten.popleft()
            except KeyboardInterrupt:  # a row that was being written is still there
                outcome.interrupted = True
                _wait_for_end(process)
                ended = False  # what it has measured until now is still to be read
        results.finish()
    finally:
        if process.poll() is None:
            process.kill()
    outcome.code = process.returncode or 0
    return outcome


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a program has ended, after a moment."""
    try:
        process.wait(timeout=ROWS_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C has reached the program too: give it some seconds to end."""
    end = time.monotonic() + END_LIMIT_S
    while process.poll() is None and time.monotonic() < end:
        time.sleep(ROWS_POLL_S)
    if process.poll() is None:
        process.kill()
        process.wait(timeout=END_LIMIT_S)


class _Measured(NamedTuple):
    machine: MachineInfo
    rows: list[Row]


class _Results:
    """The results file and its environment file. They are made when there is a first row."""

    def __init__(self, path: Path, outcome: ProgramResult, note: Callable[[str], None]) -> None:
        self._path, self._outcome, self._note = path, outcome, note
        self._writer: Writer | None = None
        self._record: EnvironmentRecord | None = None

    def write(self, found: _Measured) -> None:
        if self._writer is None or self._record is None:
            self._writer = Writer(self._path, tuple(found.rows[0].case.axes))
            self._writer.note = self._note
            self._record = EnvironmentRecord(
                describe_command(found.machine, self._path.parent), self._writer.write_environment
            )
            self._outcome.csv, self._outcome.moved = self._path, self._writer.moved
        named = [replace(row, env_id=self._record.add_machine(found.machine)) for row in found.rows]
        self._writer.write(named)
        self._outcome.rows += named

    def finish(self) -> None:
        if self._record is not None:
            self._record.finish(interrupted=self._outcome.interrupted)


class _Reader:
    """Reads the messages that processes append to a file. Each process is a session, numbered as they appear."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._rest = path, 0, b""
        self._machines: dict[str, MachineInfo] = {}

    def new(self) -> list[_Measured]:
        """What has been appended since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        *lines, rest = (self._rest + data).split(b"\n")
        found = [measured for line in lines if (measured := self._measured(line)) is not None]
        self._read, self._rest = self._read + len(data), rest
        return found

    def _measured(self, line: bytes) -> _Measured | None:
        process = line.split(b" ", 1)[0].decode("ascii", "replace")
        try:
            message = decode(line, process)
        except ProtocolError as error:
            print(
                f"kbench: a message of process {process} cannot be read, and its rows are lost: {error}",
                file=sys.stderr,
            )
            return None
        if isinstance(message, Catalog):
            self._machines[process] = message.machine
        if not isinstance(message, Rows) or process not in self._machines:
            return None
        session = list(self._machines).index(process)
        return _Measured(self._machines[process], [replace(row, session=session) for row in message.rows])
