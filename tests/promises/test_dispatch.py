"""`kbench dispatch`: results as a function that names the fastest provider. It measures nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from promises.outside import ROOT, Kbench, MadeOnce, keep, kept, run_kbench, write_results

PROVIDERS, GELU = (ROOT / "results" / "h200" / f"{name}.csv" for name in ("softmax-providers", "gelu"))

SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


def factor(provider: str, n: int) -> float | None:
    """How many times as long as the fastest a provider takes. None: it declines this size."""
    if provider == "part":
        return 1.0 if n <= 1024 else None
    if provider == "short":
        return 1.25 if n <= 1024 else 1.0 if n <= 4096 else 1.4
    return 1.6 if n <= 4096 else 1.0


def results() -> Iterator[dict[str, object]]:
    for n in SIZES:
        least_ms = n * 4096 * 8 / 4e9
        times = {name: factor(name, n) for name in ("part", "short", "long")} | {
            "copy": 1.0,
            "repeat": factor("long", n),
        }
        for name, times_as_long in times.items():
            role = "control" if name in ("copy", "repeat") else "provider"
            row: dict[str, object] = {"N": n, "provider": name, "role": role}
            if times_as_long is None:
                yield row | {"status": "unsupported", "reason": "only short rows"}
                continue
            ms = least_ms * times_as_long
            rounds = [ms * (1 + share) for share in (-0.001, 0.0005, 0, 0.0007, -0.0004)]
            yield row | {"ms": ms, "round_ms": ";".join(map(str, rounds)), "samples": 100, "gbps": n * 32768 / ms / 1e6}


@pytest.fixture
def dispatched(made_once: MadeOnce) -> Path:
    def make(folder: Path) -> None:
        write_results(folder / "results.csv", results())
        keep(run_kbench("dispatch", "results.csv", "-o", "chosen.py", folder=folder), folder)
        keep(run_kbench("dispatch", "results.csv", "--limit", 1, folder=folder), folder, "one")

    return made_once("dispatched", make)


@pytest.fixture
def choose(dispatched: Path) -> Callable[..., str]:
    namespace: dict[str, Any] = {}
    exec((dispatched / "chosen.py").read_text(), namespace)
    chosen: Callable[..., str] = namespace["choose"]
    return chosen


def test_dispatch_writes_a_function_of_the_fastest_provider_without_imports_and_names_its_results(
    dispatched: Path, choose: Callable[..., str]
) -> None:
    source = (dispatched / "chosen.py").read_text()
    head = "\n".join(source.splitlines()[:8])
    assert all(word in head for word in ("results.csv", "NVIDIA H200", "2026-11-20", "softmax"))
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [getattr(node, "module", "") for node in imports] == ["__future__"] * len(imports)
    for n in SIZES:
        times = {name: factor(name, n) or 9 for name in ("part", "short", "long")}
        assert choose(M=4096, N=n, dtype="float32") == min(times, key=lambda name: times[name])


def test_no_provider_is_chosen_beyond_the_sizes_that_it_ran_or_for_a_dtype_of_which_it_lacks_a_case(
    choose: Callable[..., str],
) -> None:
    assert choose(M=4096, N=700, dtype="float32") == "part"
    assert "part" not in {choose(M=4096, N=n, dtype="float32") for n in (0, 1, 255, 2048, 10**6)}
    assert {choose(M=4096, N=n, dtype="float64") for n in (*SIZES, -1, 10**12)} <= {"short", "long"}


def test_dispatch_prints_the_decision_and_its_regret_and_draws_a_map(dispatched: Path) -> None:
    ended = kept(dispatched)
    assert ended.code == 0 and all(name in ended.out for name in ("part", "short", "long"))
    assert re.search(r"regret.*mean 0\.00 %.*worst 0\.00 %", ended.out)
    assert (dispatched / "chosen.png").read_bytes().startswith(b"\x89PNG")


def test_the_regret_is_how_much_slower_the_chosen_provider_is_than_the_fastest(dispatched: Path) -> None:
    """With one provider, that is the better of the two which ran in every case."""
    regrets = {name: [(factor(name, n) or 9) - 1 for n in SIZES] for name in ("short", "long")}
    best = min(regrets, key=lambda name: sum(regrets[name]))
    mean, worst = sum(regrets[best]) / len(SIZES), max(regrets[best])
    out = kept(dispatched, "one").out
    assert re.search(rf"regret at measured.*mean {mean * 100:.2f} %, worst {worst * 100:.2f} % \({best} at", out)
    assert "part" in out  # the fastest of three cases, and the command says why it is never chosen


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([PROVIDERS, GELU], ["softmax", "gelu", "--where"]),
        ([PROVIDERS, "-o", "chosen.txt"], ["chosen.txt", ".py"]),
        ([PROVIDERS, "--where", "N=5"], ["N=5"]),
    ],
    ids=["two operators", "no Python file", "no row"],
)
def test_dispatch_refuses_what_no_function_can_serve(
    kbench: Kbench, folder: Path, arguments: list[object], words: list[str]
) -> None:
    ended = kbench("dispatch", *arguments)
    assert ended.code == 2 and all(word in ended.err for word in words) and not any(folder.iterdir())
