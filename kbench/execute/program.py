"""Runs a program whose calls of do_bench are measured in place, and writes what it measures as rows.

The program keeps its terminal, its arguments and its working folder. Its processes append messages to a file: first one that
describes their machine, then the rows. This process reads them, and writes the results file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from kbench import interrupts
from kbench.errors import ExitStatus, UsageError
from kbench.execute.environment_record import EnvironmentRecord, describe_command
from kbench.execute.writer import Writer, check_writable
from kbench.protocol import Catalog, MachineInfo, ProtocolError, Rows, decode
from kbench.results.row import Row
from kbench.sources.scripts import in_place_variables

GLANCE_S = 0.2
"""How often to look for new rows."""

END_LIMIT_S = 5.0
"""How long a program may take to end after Ctrl-C."""


@dataclass
class ProgramResult:
    """How a program ended, and the rows that it measured.

    csv   the results file; None if nothing was measured
    code  the exit code of the program
    """

    code: int
    csv: Path | None = None
    rows: list[Row] = field(default_factory=list)
    moved: list[Path] = field(default_factory=list)
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code of kbench: that of the program, or 128 and the number of the signal that ended it, as in shells. If the
        program did well, it says whether anything was measured."""
        if self.interrupted:
            return ExitStatus.INTERRUPTED
        if self.code:
            return self.code if self.code > 0 else 128 - self.code
        return ExitStatus.OK if self.rows else ExitStatus.NOTHING


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
            raise UsageError(
                f"{command[0]}: cannot be started ({error.strerror}); write the command after --"
            ) from None
        return _collect(process, messages, path, note)


def _collect(
    process: subprocess.Popen[bytes], messages: Path, path: Path, note: Callable[[str], None]
) -> ProgramResult:
    """Write the rows of a program as they come, until it ends."""
    outcome, reader = ProgramResult(0), _Reader(messages)
    writer: Writer | None = None
    record: EnvironmentRecord | None = None
    try:
        while True:
            ended = _ended(process, outcome)
            for machine, rows in reader.new():
                if writer is None:
                    writer = Writer(path, tuple(rows[0].case.axes))
                    writer.note = note
                    record = EnvironmentRecord(describe_command(machine, path.parent), writer.write_environment)
                    outcome.csv, outcome.moved = path, writer.moved
                assert record is not None
                named = [replace(row, env_id=record.add_machine(machine)) for row in rows]
                writer.write(named)
                outcome.rows += named
            if ended:
                break
        if record is not None and writer is not None:
            writer.check()
            record.finish(interrupted=outcome.interrupted)
    finally:
        if process.poll() is None:
            process.kill()
        if writer is not None:
            with closing(writer):
                pass
    outcome.code = process.returncode or 0
    return outcome


def _ended(process: subprocess.Popen[bytes], outcome: ProgramResult) -> bool:
    """Wait a moment for the program. Ctrl-C has reached it too: it then gets some seconds to end."""
    try:
        process.wait(timeout=GLANCE_S)
    except subprocess.TimeoutExpired:
        return False
    except KeyboardInterrupt:
        outcome.interrupted = True
        end = time.monotonic() + END_LIMIT_S
        while process.poll() is None and time.monotonic() < end:
            time.sleep(GLANCE_S)
        if process.poll() is None:
            process.kill()
            process.wait(timeout=END_LIMIT_S)
    return True


class _Reader:
    """Reads the messages that processes append to a file. Each process is a session, numbered as they appear."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._rest = path, 0, b""
        self._machines: dict[str, MachineInfo] = {}

    def new(self) -> Iterator[tuple[MachineInfo, list[Row]]]:
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            process = line.split(b" ", 1)[0].decode("ascii", "replace")
            try:
                message = decode(line, process)
            except ProtocolError as error:
                print(f"kbench: a message of process {process} cannot be read: {error}", file=sys.stderr)
                continue
            if isinstance(message, Catalog):
                self._machines[process] = message.machine
            elif isinstance(message, Rows) and message.rows and process in self._machines:
                session = list(self._machines).index(process)
                yield self._machines[process], [replace(row, session=session) for row in message.rows]
