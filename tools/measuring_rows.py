"""Prints how fast kbench's row operators are: as a share of a copy of the same algorithmic bytes, in GB/s, and beside the best
peer. The tables of the dispatches (kernels/norms/dispatch, kernels/rows/dispatch.cuh, cross_entropy/triton_dispatch.py,
softmax/triton_backward_dispatch.py) are chosen with it.

    python tools/measuring_rows.py                                  every operator and mode, the most valuable rows first
        --only rmsnorm,layernorm-backward --dtypes bfloat16         some of them
        --shapes 16384x4096,64x4096 --rows 12                       these rows, or the first of each operator and mode
        --weights float32                                           weights of the norms beside rows in 16 bits
        --limit-s 280                                               stops after so many seconds
        --candidates                                                other launches, too, and the best of them
        --candidates '1 warps,2 stages'                             those whose names contain one of these
        --against DIR --ours cuda                                   this code and that of another checkout, in turns; for an
                                                                    old one, a copy of this with the old sources in it
        --json FILE                                                 everything that was measured, a line for each row

Triton kernels are compiled and CUDA sources are built first, in several processes. Each operator is then measured in a
process of its own, with kbench's pre-filled do_bench and a cold cache. All contenders of a row are timed in turns. `DIFFERS`
marks outputs that are not close to torch's; kbench's own check is more careful.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from rows_shapes import rows_of

OPERATIONS = {
    f"{operator}{'' if mode == 'forward' else f'-{mode}'}": (operator, mode)
    for operator, modes in {
        "layernorm": ("backward", "forward"),
        "rmsnorm": ("backward", "forward"),
        "cross_entropy": ("full", "forward", "backward"),
        "add_rmsnorm": ("forward", "backward"),
        "softmax": ("backward", "forward"),
    }.items()
    for mode in modes
}
DEFAULT = [name for name in OPERATIONS if name != "softmax"]

ROW_SECONDS = 40.0
"""A worker that has not answered after so long is stopped: a kernel may hang."""

Row = dict[str, Any]


class Worker:
    """A process that runs rows_worker.py, with the kbench of a checkout. It starts again after a failure."""

    def __init__(self, checkout: Path | None = None) -> None:
        path = os.environ.get("PYTHONPATH", "")
        self.environment = os.environ | ({"PYTHONPATH": f"{checkout}{os.pathsep}{path}"} if checkout else {})
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("rows_worker.py"))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
        )
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.answers), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            answers.put(line)
        answers.put("")

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer, or {"error": why there is none}."""
        if self.process is None:
            self.start()
        assert self.process and self.process.stdin
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            line = self.answers.get(timeout=max(1.0, seconds))
        except (queue.Empty, OSError):
            line = ""
        found: dict[str, Any] = json.loads(line) if line else {"error": "the process died or took too long"}
        if not line or found.get("lost"):
            self.stop()
        return found

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


class Tool:
    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.begin = asked, time.monotonic()
        self.names = list(asked.only)
        self.measured: dict[str, list[Worker]] = {}

    def left(self) -> float:
        return float(self.asked.limit_s - (time.monotonic() - self.begin))

    def say(self, text: str) -> None:
        print(text, flush=True)

    def rows(self) -> list[tuple[str, int, Row]]:
        """All rows with the name of their operation and their rank in it: the first of every operation, then the second."""
        columns = []
        for name in self.names:
            operator, mode = OPERATIONS[name]
            if self.asked.shapes:
                own = [
                    {"operator": operator, "mode": mode, "dtype": dtype, "M": M, "N": N}
                    for dtype in self.asked.dtypes
                    for M, N in self.asked.shapes
                ]
            else:
                own = list(rows_of(operator, mode, self.asked.dtypes))
            weights = {"weight_dtype": self.asked.weights} if self.asked.weights != "same" else {}
            columns.append([(name, rank, row | weights) for rank, row in enumerate(own[: self.asked.rows])])
        return [each for rank in zip_longest(*columns) for each in rank if each]

    def ours(self, name: str) -> list[str]:
        modes = ("cross_entropy-full", "cross_entropy-backward")
        in_place = [f"{each}-in-place" for each in self.asked.ours if name in modes and each in ("triton", "cuda")]
        return [*self.asked.ours, *in_place]

    def request(self, do: str, name: str, row: Row, peers: Sequence[str] = ()) -> dict[str, Any]:
        providers = [*self.ours(name), *peers]
        return {"do": do, "row": row, "providers": providers, "candidates": self.asked.candidates}

    def compile(self, rows: list[tuple[str, int, Row]]) -> None:
        """Compile and build in several processes, for `compile_s` at most. What is left compiles when its turn comes."""
        begin, end = time.monotonic(), time.monotonic() + self.asked.compile_s
        jobs = []
        if "cuda" in self.ours(""):
            for name in self.names:
                operator, mode = OPERATIONS[name]
                row = {"operator": operator, "mode": mode, "dtype": "bfloat16", "M": 1, "N": 1024}
                jobs.append((None, {"do": "build", "row": row}))
        if "triton" in self.ours(""):
            liger = [peer for peer in self.asked.peers if peer == "liger"]
            for name, rank, row in rows:
                jobs.append((None, self.request("compile", name, row, liger if rank < self.asked.peer_rows else ())))
        if self.asked.against:
            jobs += [(self.asked.against, job) for _, job in jobs]
        workers: queue.Queue[dict[Path | None, Worker]] = queue.Queue()
        count = min(len(jobs), self.asked.workers)
        for _ in range(count):
            workers.put({})
        failed: list[str] = []

        def run(job: tuple[Path | None, dict[str, Any]]) -> bool:
            if time.monotonic() > end:
                return False
            mine = workers.get()
            worker = mine.setdefault(job[0], Worker(job[0]))
            found = worker.ask(job[1], min(120.0, end + 20 - time.monotonic()))
            workers.put(mine)
            row = job[1]["row"]
            where = f"{row['operator']} {row['mode']} {row['dtype']} {row['M']}x{row['N']}"
            if "error" in found:
                failed.append(f"{job[1]['do']} {where}: {found['error']}")
            failed.extend(f"{where} {each}: {why}" for each, why in found.get("failed", {}).items())
            return True

        with ThreadPoolExecutor(max(1, count)) as pool:
            done = sum(pool.map(run, jobs))
        while not workers.empty():
            for worker in workers.get().values():
                worker.stop()
        self.say(f"# compiled {done} of {len(jobs)} in {time.monotonic() - begin:.0f} s; {len(failed)} failed")
        for line in failed[:20]:
            self.say(f"#   {line}")

    def worker(self, row: Row, checkout: Path | None = None) -> Worker:
        operator = row["operator"] if checkout is None else f"{row['operator']} of {checkout}"
        return self.measured.setdefault(operator, [Worker(checkout)])[0]

    def measure(self) -> None:
        rows = self.rows()
        for _, _, row in rows:  # they import their modules while others compile
            for checkout in [None, self.asked.against] if self.asked.against else [None]:
                worker = self.worker(row, checkout)
                if worker.process is None:
                    worker.start()
        if not self.asked.no_compile:
            self.compile(rows)
        for number, (name, rank, row) in enumerate(rows):
            if self.left() < 3:
                self.say(
                    f"# the time is over: {len(rows) - number} rows are left, from {name} {row['M']}x{row['N']} on"
                )
                break
            found = self.against(name, row) if self.asked.against else self.one(name, rank, row)
            if self.asked.json:
                with self.asked.json.open("a") as file:
                    print(json.dumps({"name": name, **row, **found}), file=file)
        for (worker,) in self.measured.values():
            worker.stop()
        self.say(f"# {time.monotonic() - self.begin:.0f} s")

    def one(self, name: str, rank: int, row: Row) -> dict[str, Any]:
        peers = self.asked.peers if rank < self.asked.peer_rows else []
        request = self.request("measure", name, row, peers) | {"rounds": self.asked.rounds}
        found = self.worker(row).ask(request, min(ROW_SECONDS, self.left() + 15))
        weights = f", weights in {row['weight_dtype']}" if "weight_dtype" in row else ""
        where = f"{name} {row['dtype']} {row['M']}x{row['N']}{weights}:"
        if "us" not in found:
            self.say(f"{where} {found.get('error') or found.get('failed')}")
            return found
        us, copy = found["us"], found["us"].pop("copy")
        ours = [each for each in self.ours(name) if each in us]
        shares = [f"{each} {_share(each, found, copy)} {found['bytes'] / us[each] / 1000:.0f} GB/s" for each in ours]
        others = [f"{each} {_share(each, found, copy)}" for each in peers if each in us]
        line = f"{where} copy {copy:.1f} us | {', '.join(shares)}" + (f" | {', '.join(others)}" if others else "")
        if ours and others:
            ahead = min(us[each] for each in peers if each in us) / min(us[each] for each in ours)
            line += f" | {ahead:.2f} x the best peer"
        self.say(line)
        for each in ours:
            others_us = sorted((us[other], other) for other in us if other.startswith(f"{each}: "))
            right = [time_us for time_us, other in others_us if other not in found["wrong"]]
            if right:
                best = "; ".join(
                    f"{copy / time_us:.3f} {other}{_mark(other, found)}" for time_us, other in others_us[:6]
                )
                self.say(f"    {100 * (us[each] / right[0] - 1):+.1f} % by the best of {len(right)}: {best}")
        failed = {each: why for each, why in found["failed"].items() if not why.startswith("Unsupported")}
        if failed:
            self.say(f"    failed: {'; '.join(f'{each}: {why}' for each, why in failed.items())[:500]}")
        return found | {"copy_us": copy}

    def against(self, name: str, row: Row) -> dict[str, Any]:
        """Round by round, this code and then the other, in two processes."""
        times: dict[str, list[list[float]]] = {}
        for _ in range(self.asked.rounds):
            for side, checkout in enumerate((None, self.asked.against)):
                request = self.request("measure", name, row) | {"rounds": 1}
                found = self.worker(row, checkout).ask(request, min(ROW_SECONDS, self.left() + 15))
                if "error" in found:
                    where = checkout or "this checkout"
                    self.say(f"{name} {row['dtype']} {row['M']}x{row['N']}: {where}: {found['error']}")
                    return found
                for each, time_us in found.get("us", {}).items():
                    times.setdefault(each, [[], []])[side].append(time_us)
        line = []
        for each, (here, there) in times.items():
            if here and there:
                ratio = median(there) / median(here)
                line.append(f"{each} here {median(here):.2f} us, there {median(there):.2f}: {ratio:.3f} x as fast")
        self.say(f"{name} {row['dtype']} {row['M']}x{row['N']}: {'; '.join(line) or found.get('error') or found}")
        return {"here_and_there_us": times}


def _share(name: str, found: dict[str, Any], copy: float) -> str:
    return f"{copy / found['us'][name]:.3f}{_mark(name, found)}"


def _mark(name: str, found: dict[str, Any]) -> str:
    return f" DIFFERS ({found['wrong'][name]})" if name in found["wrong"] else ""


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=words, default=DEFAULT, help=f"of {', '.join(OPERATIONS)}")
    parser.add_argument("--dtypes", type=words, default=["bfloat16", "float32"])
    parser.add_argument("--weights", default="same", help="dtype of the norms' weights: same (as x) or float32")
    parser.add_argument("--ours", type=words, default=["triton", "cuda"])
    parser.add_argument("--peers", type=words, default=["liger", "quack"])
    parser.add_argument("--peer-rows", type=int, default=6, help="measure peers on the first rows only")
    parser.add_argument("--shapes", type=lambda text: [tuple(map(int, each.split("x"))) for each in words(text)])
    parser.add_argument("--rows", type=int, help="the first rows of each operator and mode")
    parser.add_argument("--candidates", nargs="?", type=words, const=[], metavar="WORDS")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=600.0)
    parser.add_argument(
        "--compile-s", type=float, help="how long to compile before measuring. Default: 40 %% of --limit-s"
    )
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="that compile")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if unknown := [name for name in asked.only if name not in OPERATIONS]:
        raise SystemExit(f"there is no {unknown[0]}; --only takes {', '.join(OPERATIONS)}")
    asked.compile_s = 0.4 * asked.limit_s if asked.compile_s is None else asked.compile_s
    Tool(asked).measure()


if __name__ == "__main__":
    main()
