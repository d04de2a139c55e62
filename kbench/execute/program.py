"""Runs a script or a program that measures itself where it calls do_bench, and writes what it measures as rows.

The program keeps its terminal, its arguments and its working folder. Its processes append messages to a file: first one that
describes their machine, then the steps that they enter, and the rows. This process reads them, writes the results files, and
ends a process that takes longer than the limit of its step.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from kbench import interrupts
from kbench.errors import ConfigError, ExitStatus, UsageError
from kbench.execute.environment_record import describe_command
from kbench.execute.run import RunResult
from kbench.execute.spawning import worker_environment
from kbench.execute.supervisor import MOST_DEATHS
from kbench.execute.worker import end_of, kill_tree
from kbench.execute.writer import Writer, check_writable
from kbench.files import source_text
from kbench.protocol import (
    PROGRAM,
    ROWS_FILE,
    SESSION,
    SETTINGS,
    STEPS,
    Catalog,
    DeviceFailed,
    Fault,
    LineDone,
    Measure,
    Message,
    PointBegun,
    ProtocolError,
    Rows,
    StepBegun,
    StepEnded,
    decode,
    encode,
)
from kbench.results.environment import Machine
from kbench.results.row import Row
from kbench.results.stamps import now
from kbench.results.vocabulary import Status
from kbench.text import terminal
from kbench.text.words import list_words

POLL_S = 0.1
"""How often to look for new messages."""

END_LIMIT_S = 5.0
"""How long a program may take to end after Ctrl-C."""

SILENCE_LIMIT_S = 3600.0
"""How long a script may take between two calls of do_bench. It may compile kernels."""

LAUNCHERS = ("python", "torchrun")
"""How the names of programs begin whose option -m names a module."""

MOST_STARTS = 10
"""How often a script is started before it is given up. It is started again after a line that ended its process."""

CLOCK_CALL = re.compile(
    r"\b(elapsed_time|(?:perf_counter|process_time)(?:_ns)?|time\.time(?:_ns)?|default_timer|timeit\.\w+)\("
)
"""A call with which a program may time other calls by hand."""


class ProgramRun:
    """A run of a script or a program.

    It writes the rows of a plot to the file of the plot, and all others to the file of the program. Rows with other axes get a
    file of their own, and so do rows with words where earlier rows have numbers. A file and its environment file are made when
    there is a first row. `entries` go into the environment files.

    code         its exit code, or the negative number of the signal that has ended it
    interrupted  by Ctrl-C or a signal
    fault        what was wrong with a script
    session      that of all rows; without it each process is a session
    """

    def __init__(self, name: str, out: Path, entries: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.code, self.interrupted = 0, False
        self.fault: Fault | None = None
        self.session: int | None = None
        self._out, self._entries = out, dict(entries or {})
        self._files: dict[tuple[object, ...], tuple[Writer, RunResult]] = {}  # by plot and axes
        check_writable(out / f"{name}.csv")

    @property
    def results(self) -> list[RunResult]:
        """One for each plot, and one for the calls of do_bench outside of all plots."""
        return [result for _, result in self._files.values()]

    @property
    def rows(self) -> list[Row]:
        return [row for result in self.results for row in result.rows]

    @property
    def exit_status(self) -> int:
        """The exit code of `kbench exec`: that of the program if it failed, as in shells."""
        if self.interrupted:
            return ExitStatus.INTERRUPTED
        if self.code:
            return self.code if self.code > 0 else 128 - self.code
        measured = any(row.status.right for row in self.rows)
        return ExitStatus.OK if measured else ExitStatus.NOTHING

    def add(self, rows: Sequence[Row], process: _Process, baseline: str = "") -> None:
        """Write the rows of a case, which this process has measured. `baseline` is a name."""
        operator, axes = rows[0].case.operator, rows[0].case.axes
        key = operator, *((name, type(value)) for name, value in axes.items())
        if key not in self._files:
            path = self._free_path(operator)
            writer = Writer(path, tuple(axes)).begin()
            entries = self._entries | ({"baseline": baseline} if baseline else {})
            writer.write_environment(describe_command(process.machine, self._out, **entries))
            self._files[key] = writer, RunResult(path, moved=writer.moved, baseline=baseline or None)
        writer, result = self._files[key]
        named = [replace(row, session=process.session, env_id=writer.add_machine(process.machine)) for row in rows]
        writer.write(named)
        result.rows += named

    def _free_path(self, operator: str) -> Path:
        """A file that has no other rows of this program: `softmax.csv`, `softmax-2.csv`."""
        paths = {result.csv for result in self.results}
        names = (operator if number == 1 else f"{operator}-{number}" for number in count(1))
        return next(path for name in names if (path := self._out / f"{name}.csv") not in paths)

    def note_clocks(self, program: Path | None) -> None:
        """Say where a program that ran to its end and measured nothing reads a clock: it may time calls by hand."""
        silent = not (self.results or self.code or self.interrupted)
        if program and silent and (places := _clock_calls(program)):
            terminal.note(
                "kbench cannot measure calls that a program times by hand, and this one reads a clock: "
                f"{list_words(places, 4)}. Let do_bench time calls: from kbench import do_bench; ms = do_bench(lambda: ...)"
            )

    def finish(self) -> None:
        for writer, _ in self._files.values():
            writer.finish(interrupted=self.interrupted)


def program_name(command: Sequence[str]) -> str:
    """What the results of a command are called: `bench` for `python -u tests/bench.py --size 3`."""
    scripts = [word for word in command if word.endswith(".py")]
    if scripts:
        return Path(scripts[0]).stem
    option = command.index("-m") if "-m" in command[:-1] else 0
    if any(Path(word).name.startswith(LAUNCHERS) for word in command[:option]):
        return command[option + 1]
    return Path(command[0]).stem or "program"


def _main_file(command: Sequence[str]) -> Path | None:
    """The Python file that a command runs; None if it is not known."""
    module = Path(program_name(command).replace(".", "/")).with_suffix(".py")
    files = [*(Path(word) for word in command if word.endswith(".py")), module]
    return next((file for file in files if file.is_file()), None)


def _clock_calls(program: Path) -> list[str]:
    """Where a program reads a clock, in its main file and in those beside it that this imports: `bench.py:5 (perf_counter)`."""
    modules = re.findall(r"^\s*(?:import|from) (\w+)", source_text(program), re.MULTILINE)
    return [
        f"{file.name}:{number} ({call[1]})"
        for file in dict.fromkeys([program, *(program.with_name(f"{module}.py") for module in modules)])
        for number, line in enumerate(source_text(file).splitlines(), 1)
        if (call := CLOCK_CALL.search(line))
    ]


def run_program(command: Sequence[str], out: Path) -> ProgramRun:
    """Run a command to its end. Raises UsageError if it cannot be started, and ResultsError."""
    run = ProgramRun(program_name(command), out)
    with _watched(run) as program:
        for row, process in program.run_to_end(command):
            run.add([row], process)
    run.note_clocks(_main_file(command))
    return run


def run_script(script: Path, arguments: Sequence[str], out: Path, settings: Measure) -> ProgramRun:
    """Run a script to its end, once for each session. A line that ends the process costs its own row: the script is started
    again. Lines that are measured are not called again: the script gets what they returned before. Raises ResultsError, and
    ConfigError for a script that cannot be measured."""
    config = {"path": str(script), "source": str(script.absolute())}
    run = ProgramRun(script.stem, out, {"config": config, "measure": settings.model_dump(exclude_unset=True)})
    for session in range(settings.sessions):
        run.session = session
        with _watched(run, silence_limit_s=SILENCE_LIMIT_S) as program:
            program.environment |= {SETTINGS: settings.model_dump_json(exclude_unset=True), SESSION: str(session)}
            command = [sys.executable, "-P", "-m", "kbench.measure.scripts", str(script), *arguments]
            for start in range(1, MOST_STARTS + 1):
                again = ""
                for row, process in program.run_to_end(command):
                    where = f"{script.name}: {row.provider} at {row.case.label}: {row.reason}"
                    if process is program.own and start < MOST_STARTS:
                        again = f"{where}; starting the script again without this line"
                    else:  # a child would not go on where it has ended, so a new start is of no use
                        terminal.note(f"{where}; the script is not started again")
                        run.add([row], process)
                if not again:
                    break
                terminal.note(again)
        if run.interrupted or run.code:
            break
    if run.code and not run.fault and not run.interrupted:
        run.fault = Fault(str(script), end_of(run.code))
    run.note_clocks(script)
    fault = run.fault
    if fault and not run.results:
        raise ConfigError.at(fault.where, fault.message)
    return run


@contextmanager
def _watched(run: ProgramRun, silence_limit_s: float | None = None) -> Iterator[_Program]:
    """A program that may be run several times. At the end, its files have everything that it has measured."""
    with tempfile.TemporaryDirectory(prefix="kbench-") as folder, interrupts.noted() as signals:
        messages = Path(folder) / "messages"
        messages.touch()
        yield _Program(messages, run, signals, silence_limit_s)
        run.finish()


@dataclass
class _Process:
    """A process that measures itself.

    session  number of the session of its rows
    machine  that it runs on
    system   the process of the system; None if it has ended before kbench looked
    step     that has begun and not ended, and when
    point    of the plot whose lines it measures
    lost     what it said of the device, or why it was killed
    """

    session: int
    machine: Machine
    system: psutil.Process | None
    step: tuple[StepBegun, float] | None = None
    point: PointBegun | None = None
    lost: tuple[Status, str] | None = None

    @property
    def in_step(self) -> bool:
        """Whether it still runs, in a step that may go on. Another process may have its pid after its end."""
        if self.step is None or self.lost or self.system is None:
            return False
        with suppress(psutil.NoSuchProcess):
            return bool(self.system.is_running() and self.system.status() != psutil.STATUS_ZOMBIE)
        return False


class _Program:
    """Runs a command, and reads the messages of its processes."""

    def __init__(self, messages: Path, run: ProgramRun, signals: Sequence[int], silence_limit_s: float | None) -> None:
        self._messages, self._run, self._signals = messages, run, signals
        self._silence_limit_s = silence_limit_s
        self._processes: dict[str, _Process] = {}
        self.environment = worker_environment() | {ROWS_FILE: str(messages), PROGRAM: run.name}
        # Python imports its sitecustomize.py
        at_start = Path(__file__).parents[1] / "measure" / "scripts" / "at_start"
        paths = [str(at_start), self.environment["PYTHONPATH"]]
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.own: _Process | None = None  # that of the command itself, if it measures
        self._deaths: Counter[tuple[str, str]] = Counter()  # in a row, by plot and line
        self._read, self._rest, self._heard = 0, b"", time.monotonic()

    def run_to_end(self, command: Sequence[str]) -> list[tuple[Row, _Process]]:
        """Run a command to its end. Returns a row for each line of a plot in which a process has ended, and that process. The
        processes of the next command are told of these lines."""
        run = self._run
        run.fault = None
        self._processes, self._heard = {}, time.monotonic()
        process = _start(command, self.environment)
        try:
            while process.poll() is None and not self._signals:
                self._read_messages()
                self._end_late(process.pid)
                time.sleep(POLL_S)
            run.interrupted = bool(self._signals)
            with suppress(subprocess.TimeoutExpired):  # Ctrl-C has reached the program too
                process.wait(END_LIMIT_S)
        finally:
            if process.poll() is None:
                kill_tree(process.pid)
        with suppress(subprocess.TimeoutExpired):  # the driver may wait for a kernel that still runs
            process.wait(END_LIMIT_S)
        run.code = -signal.SIGKILL if process.returncode is None else process.returncode
        self._read_messages()
        self.own = self._processes.get(str(process.pid))
        if run.interrupted:
            return []
        return [
            (self._lost_row(measuring, run.code if pid == str(process.pid) else None), measuring)
            for pid, measuring in self._processes.items()
            if measuring.step and measuring.point
        ]

    def _lost_row(self, measuring: _Process, code: int | None) -> Row:
        assert measuring.step and measuring.point
        (step, _), point = measuring.step, measuring.point
        row = point.rows[step.index]
        status, reason = measuring.lost or (row.status, row.reason if code is None else end_of(code))
        reason += f" while {STEPS[step.step]}" if measuring.lost is None or status is Status.TIMEOUT else ""
        plot, line = row.case.operator, row.provider
        self._deaths[plot, line] += 1
        messages = [LineDone(plot, point.label, line, None, status, reason)]
        if self._deaths[plot, line] == MOST_DEATHS:
            messages.append(LineDone(plot, "", line, None, status, f"not tried again: {reason}"))
        with self._messages.open("ab") as file:
            file.write(b"\n")  # the process may have been killed while it wrote
            file.writelines(encode(message, "parent") for message in messages)
        return replace(row, status=status, reason=reason, started_at=now())

    def _read_messages(self) -> None:
        """Take in what has come since the last call."""
        with self._messages.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._read += len(data)
        for line in filter(None, lines):
            pid = line.split(b" ", 1)[0].decode("ascii", "replace")
            try:
                message = decode(line, pid)
            except ProtocolError as error:
                terminal.note(f"a message of process {pid} cannot be read, and its rows are lost: {error}")
                continue
            self._heard = time.monotonic()
            if isinstance(message, Catalog):
                session = len(self._processes) if self._run.session is None else self._run.session
                self._processes[pid] = _Process(session, message.machine, _process_of(int(pid)))
            elif isinstance(message, Fault):
                self._run.fault = message
            elif pid in self._processes:
                self._take(message, self._processes[pid])

    def _take(self, message: Message, process: _Process) -> None:
        if isinstance(message, StepBegun):
            process.step = message, self._heard
        elif isinstance(message, StepEnded):
            process.step = None
        elif isinstance(message, PointBegun):
            process.point = message
        elif isinstance(message, DeviceFailed):
            process.lost = message.status, message.reason
        elif isinstance(message, Rows) and message.rows:
            baseline = message.rows[0].configuration_name if process.point else ""
            process.point = None
            for row in message.rows:
                if row.status not in (Status.CRASHED, Status.TIMEOUT):
                    self._deaths.pop((row.case.operator, row.provider), None)
            self._run.add(message.rows, process, baseline)

    def _end_late(self, pid: int) -> None:
        """Kill a process whose step takes longer than its limit, and a script that is silent between two steps."""
        silent_s = time.monotonic() - self._heard
        working = [process for process in self._processes.values() if process.in_step]
        for process in working:
            assert process.step and process.system
            if time.monotonic() - process.step[1] > process.step[0].limit_s:
                process.lost = Status.TIMEOUT, f"took longer than {process.step[0].limit_s:g} s"
                kill_tree(process.system.pid)
                return
        if self._silence_limit_s and silent_s > self._silence_limit_s and not working:
            message = f"the script called do_bench for the last time {silent_s:.0f} s ago, so kbench has ended it"
            self._run.fault = Fault(self._run.name, message)
            kill_tree(pid)


def _process_of(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(command), env=dict(environment))
    except OSError as error:
        advice = "give the path of a program that can be run"
        if command[0].endswith(".py") and Path(command[0]).is_file():
            advice = f"run it with Python: kbench exec -- python {shlex.join(command)}"
        elif len(command) == 1 and len(command[0].split()) > 1:
            advice = "give the program and its arguments as separate words, not as one word in quotes"
        raise UsageError(f"{command[0] or repr('')}: cannot be started ({error.strerror}); {advice}") from None
