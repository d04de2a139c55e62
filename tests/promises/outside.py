"""Runs kbench as a user does, and reads and writes its files. Fixtures are in conftest.py."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
SHORT = ("--set", "rounds=2", "--set", "warmup_ms=1", "--set", "rep_ms=2")
"""Options of a run whose times mean nothing."""

QUICK = (*SHORT, "--set", "cache=warm")
"""The same, without a flush of the cache before each call."""

Row = dict[str, str]
Rows = list[Row]


@dataclass(frozen=True)
class Ended:
    """A kbench command that has ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that it printed, stdout first."""
        return self.out + self.err


# The types of the fixtures `kbench` and `kbench_process`, `write` and `made_once`.
Kbench = Callable[..., Ended]
Write = Callable[[str, str], Path]
MadeOnce = Callable[[str, Callable[[Path], object]], Path]


def prepare_process() -> None:
    """Make the tests of this process give the same result on a laptop, in CI and under nohup."""
    # kbench prints more where these are set. Tests of that set them again.
    for variable in ("CI", "GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "FORCE_COLOR", "NO_COLOR"):
        os.environ.pop(variable, None)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # Compiling a header first pays off from the seventh kernel that one process compiles; no test compiles as many.
    os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"
    # Under nohup and in the background of a shell, some signals are ignored. kbench respects that, and tests that send them
    # would wait for nothing.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def start(*arguments: object, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start `kbench ARGUMENTS` as a process in a folder, with these environment variables besides one's own."""
    return subprocess.Popen(
        [sys.executable, "-m", "kbench", *map(str, arguments)],
        cwd=folder,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_process(*arguments: object, folder: Path, timeout_s: float = 240, **variables: str) -> Ended:
    """`kbench ARGUMENTS` as a process of its own: for how the program starts and ends, and for what it does to a process."""
    process = start(*arguments, folder=folder, **variables)
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        raise
    return Ended(process.returncode, out, err)


def wait_for(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None, limit_s: float = 120
) -> None:
    """Wait until the condition holds, and fail if it takes too long or the process ends before."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)


def run_kbench(*arguments: object, folder: Path) -> Ended:
    """`kbench ARGUMENTS` in this process, in a folder, without a terminal. Workers are processes, as ever.

    Saves the half second that a new Python needs. Afterwards this process is as before.
    """
    from kbench.__main__ import main

    code: object = 0
    with _streams_in_files() as written, _restored(folder, ["kbench", *map(str, arguments)]):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Ended(int(str(code or 0)), *written)


@contextmanager
def _streams_in_files() -> Iterator[list[str]]:
    """Replace stdout and stderr with files. At the end the list holds the content of both files."""
    before, written = (sys.stdout, sys.stderr), list[str]()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        sys.stdout, sys.stderr = out, err
        try:
            yield written
        finally:
            sys.stdout, sys.stderr = before
            for file in (out, err):
                file.seek(0)
                written.append(file.read())


@contextmanager
def _restored(folder: Path, words: list[str]) -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    here, argv, environment = Path.cwd(), sys.argv, dict(os.environ)
    os.chdir(folder)
    sys.argv = words
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            for silent in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", silent)  # Python ignores these by default
            yield
    finally:
        sys.argv = argv
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environment)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def keep(ended: Ended, folder: Path, name: str = "ended") -> Ended:
    """Keep how a command ended in its folder, for the tests that read one run (`made_once`)."""
    (folder / f"{name}.json").write_text(json.dumps(asdict(ended)))
    return ended


def kept(folder: Path, name: str = "ended") -> Ended:
    """How the command ended that `keep` kept under this name."""
    return Ended(**json.loads((folder / f"{name}.json").read_text()))


def folder_of(
    made_once: MadeOnce, name: str, files: Mapping[str, str], *arguments: object, run: Kbench = run_kbench
) -> Path:
    """The folder in which `kbench ARGUMENTS` has run once, among these files. `kept` tells how it ended: what other processes
    print is in it if `run` is `run_process`."""

    def make(folder: Path) -> None:
        for file, text in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        keep(run(*arguments, folder=folder), folder)

    return made_once(name, make)


def lines_with(text: str, *words: object) -> list[str]:
    """The lines that hold all of these words. A word ends at a space, a comma or a colon."""
    return [line for line in text.splitlines() if {str(word) for word in words} <= words_of(line)]


def words_of(line: str) -> set[str]:
    return {word.rstrip(",:;") for word in line.split()}


def rows_of(path: Path) -> Rows:
    """The rows of a results CSV, as text. Rows of controls are among them."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def providers_of(path: Path) -> Rows:
    """The rows of the providers, without the controls."""
    return [row for row in rows_of(path) if row["role"] == "provider"]


def write_results(path: Path, rows: Iterable[Mapping[str, object]], axes: tuple[str, ...] = ("M", "N")) -> Path:
    """Write a results CSV whose columns are those of a committed one. A row names what differs from the defaults below."""
    with (ROOT / "results" / "h200" / "softmax.csv").open(newline="", encoding="utf-8") as committed:
        names = [name for name in next(csv.reader(committed)) if name not in ("M", "N")]
    columns = [*names[:3], *axes, *names[3:]]
    default = {
        "operator": "softmax", "M": 4096, "N": 1024, "mode": "forward", "dtype": "float32", "role": "provider", "session": 0,
        "status": "ok", "timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", "case_hash": "c0ffee",
        "started_at": "2026-11-20T10:00:00+00:00",
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: value for name, value in (default | dict(row)).items() if name in columns})
    return path
