"""Runs problems of other benchmarks as they are, each in a process of its own, and prints which of them were measured.

    python tools/running_problems.py KernelBench/level1/*.py --small 8
    python tools/running_problems.py flashinfer_trace/definitions/gemm SOL-ExecBench/examples --seconds 120

A path is a problem, or a folder in which all problems are looked for. The problems are not part of kbench: clone their
repositories, or install their packages. Problems are often too large for a host. `--small N` measures them with axes of at most
N first, then with the first axis alone reduced, and at last in their own sizes: the first that the problem accepts counts.
CI does not run this.
"""

from __future__ import annotations

import argparse
import csv
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from kbench.contract.operator import registered
from kbench.sources import folder_format
from kbench.sources.fault import SourceFault

QUICK = ("--set", "rounds=1", "--set", "rep_ms=2", "--set", "warmup_ms=1", "--no-plot")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--small", type=int, metavar="N", help="measure with axes of at most N")
    parser.add_argument("--seconds", type=float, default=60, help="interrupt a problem after this time")
    arguments = parser.parse_args()
    measured = total = 0
    print("| problem | format | cases measured | seconds | what kbench says |\n| --- | --- | --- | --- | --- |")
    for path in arguments.paths:
        for problem in find_problems(path):
            start = time.monotonic()
            cases, said = run(problem, arguments.small, arguments.seconds)
            kind = str(folder_format(problem)).rpartition(".")[2]
            print(f"| {problem.name} | {kind} | {cases} | {time.monotonic() - start:.0f} | {said} |", flush=True)
            total, measured = total + 1, measured + (cases > 0)
    print(f"\n{measured} of {total} problems were measured")


def find_problems(path: Path) -> Iterator[Path]:
    """The path, if it is a problem, or the problems in it and in its folders."""
    if path.is_file() or (path / "definition.json").is_file() or (path / "benchmarks").is_dir():
        yield path
        return
    for inside in sorted(path.iterdir()):
        if inside.is_dir() or folder_format(inside):
            yield from find_problems(inside)


def run(problem: Path, small: int | None, seconds: float) -> tuple[int, str]:
    """How many cases of a problem were measured, and what kbench says of the first row or the error that is not `ok`."""
    said = ""
    for sets in changes(problem, small):
        with tempfile.TemporaryDirectory() as folder:
            code, error = interrupted(["run", str(problem), "--out", folder, *QUICK, *sets], seconds)
            rows = [row for file in Path(folder).glob("*.csv") for row in csv.DictReader(file.open(encoding="utf-8"))]
        rows = [row for row in rows if row["role"] == "provider"]
        bad = [f"{row['provider']}: {row['status']}: {row['reason']}" for row in rows if row["status"] != "ok"]
        said = said or (bad[0] if bad else error if not rows else "")
        if rows:
            names = list(rows[0])
            axes = names[names.index("params") + 1 : names.index("dtype") + 1] if "params" in names else ["operator"]
            ok = {
                tuple(row[name] for name in ("operator", *axes)) for row in rows if row["status"] in ("ok", "checked")
            }
            return len(ok), short(bad[0] if bad else "")
        if code != 2:
            break
    return 0, short(said)


def changes(problem: Path, small: int | None) -> Iterator[list[str]]:
    """Settings to try one after another."""
    axes = read_axes(problem) if small else {}
    reduced = {name: min(value, small) for name, value in axes.items() if small and value > small}
    if reduced:
        yield [word for name, value in reduced.items() for word in ("--set", f"{name}={value}")]
    if len(reduced) > 1:
        name, value = next(iter(reduced.items()))
        yield ["--set", f"{name}={value}"]
    yield []


def read_axes(problem: Path) -> dict[str, int]:
    """The axes of a problem, with the largest size of each. Loads it, which runs its code."""
    module = folder_format(problem)
    try:
        sweeps = import_module(module).load(problem) if module else []
    except SourceFault:
        return {}  # the run says so
    largest: dict[str, int] = {}
    for sweep in sweeps if len(sweeps) == 1 else []:
        for point in sweep.points if "workload" not in sweep.points[0] else []:
            for name in registered[sweep.operator].axes:
                largest[name] = max(largest.get(name, 0), int(point[name]))
    registered.clear()
    return largest


def interrupted(arguments: Sequence[str], seconds: float) -> tuple[int, str]:
    """The exit code of `kbench ARGUMENTS` and the last line of its errors. After `seconds` it gets Ctrl-C."""
    command = [sys.executable, "-m", "kbench", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            errors = process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            errors = process.communicate()[1]
    lines = [line for line in errors.splitlines() if line.startswith("error")]
    return process.returncode, lines[-1] if lines else f"interrupted after {seconds:.0f} s"


def short(text: str) -> str:
    return text.replace("|", "/")[:160]


if __name__ == "__main__":
    main()
