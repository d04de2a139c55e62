"""Runs a program whose calls of do_bench are measured in place, and writes what it measures as rows.

The program keeps its terminal, its arguments and its working folder. Its processes append messages to a file: first one that
describes their machine, then the rows. This process reads them, and writes the results file.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kbench import interrupts
from kbench.errors import UsageError
from kbench.execute.environment_record import EnvironmentRecord, describe_command
from kbench.execute.run import RunResult
from kbench.execute.writer import Writer, check_writable
from kbench.protocol import Catalog, ProtocolError, Rows, decode
from kbench.results.environment import Machine
from kbench.results.row import Row
from kbench.sources.scripts import in_place_variables

ROWS_POLL_S = 0.2
"""How often to look for new rows."""

END_LIMIT_S = 5.0
"""How long a program may take to end after Ctrl-C."""


def program_name(command: Sequence[str]) -> str:
    """What the results of a command are called: `bench` for `python -u tests/bench.py --size 3`."""
    words = [word for word in command if word]
    script = next((Path(word).stem for word in words if word.endswith(".py")), None)
    module = words[words.index("-m") + 1 : words.index("-m") + 2] if "-m" in words else []
    return script or (module[0] if module else Path(words[0]).stem)


def run_program(command: Sequence[str], out: Path, note: Callable[[str], None]) -> RunResult:
    """Run a command to its end. Raises UsageError if it cannot be started, and ResultsError."""
    name = program_name(command)
    result = RunResult(out / f"{name}.csv")
    check_writable(result.csv)
    with tempfile.TemporaryDirectory(prefix="kbench-") as folder, interrupts.once():
        messages = Path(folder) / "messages"
        messages.touch()
        process = _start(command, in_place_variables(messages, name))
        written = _Written(messages, result, note)
        try:
            while process.poll() is None:
                with interrupts.held_back():
                    written.add_new_rows()
                time.sleep(ROWS_POLL_S)
        except KeyboardInterrupt:
            result.interrupted = True
            with suppress(subprocess.TimeoutExpired):  # Ctrl-C has reached the program too
                process.wait(END_LIMIT_S)
        finally:
            if process.poll() is None:
                process.kill()
        result.code = process.wait(END_LIMIT_S)
        written.add_new_rows()
        written.finish()
    return result


def _start(command: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(command), env={**os.environ, **variables})
    except OSError as error:
        advice = "give the path of a program that can be run"
        if command[0].endswith(".py") and Path(command[0]).is_file():
            advice = f"run it with Python: kbench exec -- python {shlex.join(command)}"
        elif len(command) == 1 and len(command[0].split()) > 1:
            advice = "give the program and its arguments as separate words, not as one word in quotes"
        raise UsageError(f"{command[0]}: cannot be started ({error.strerror}); {advice}") from None


class _Written:
    """Writes the rows that processes append to a file of messages. Each process is a session, numbered as they appear. The
    results file and its environment file are made when there is a first row."""

    def __init__(self, messages: Path, result: RunResult, note: Callable[[str], None]) -> None:
        self._messages, self._result, self._note = messages, result, note
        self._read, self._rest = 0, b""
        self._machines: dict[str, Machine] = {}
        self._writer: Writer | None = None
        self._record: EnvironmentRecord | None = None

    def add_new_rows(self) -> None:
        """Write the rows of the messages that have come since the last call."""
        with self._messages.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._read += len(data)
        for line in lines:
            process = line.split(b" ", 1)[0].decode("ascii", "replace")
            try:
                message = decode(line, process)
            except ProtocolError as error:
                self._note(f"a message of process {process} cannot be read, and its rows are lost: {error}")
                continue
            if isinstance(message, Catalog):
                self._machines[process] = message.machine
            elif isinstance(message, Rows) and message.rows and process in self._machines:
                self._write(message.rows, self._machines[process], list(self._machines).index(process))

    def _write(self, rows: Sequence[Row], machine: Machine, session: int) -> None:
        if self._writer is None or self._record is None:
            self._writer = Writer(self._result.csv, tuple(rows[0].case.axes))
            self._writer.note = self._note
            entries = describe_command(machine, self._result.csv.parent)
            self._record = EnvironmentRecord(entries, self._writer.write_environment)
            self._result.moved = self._writer.moved
        named = [replace(row, session=session, env_id=self._record.add_machine(machine)) for row in rows]
        self._writer.write(named)
        self._result.rows += named

    def finish(self) -> None:
        if self._record is not None:
            self._record.finish(interrupted=self._result.interrupted)
