"""`kbench why` gives reasons for a time, and `kbench dispatch` turns results into a function. Both measure nothing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from promises.outside import ROOT, Kbench, MadeOnce, keep, kept, providers_of, run_kbench, write_results

PROVIDERS = ROOT / "results" / "h200" / "softmax-providers.csv"


def why(kbench: Kbench, row: str, *arguments: object) -> list[dict[str, Any]]:
    """What `kbench why --json` says of a row of the committed results, and of the one beside it."""
    ended = kbench("why", PROVIDERS, "--row", row, "--json", *arguments)
    assert ended.code == 0, ended.err
    rows: list[dict[str, Any]] = json.loads(ended.out)["rows"]
    return rows


def committed(provider: str, m: int, n: int, dtype: str = "float32") -> dict[str, str]:
    terms = {"provider": provider, "M": str(m), "N": str(n), "dtype": dtype}
    [row] = [row for row in providers_of(PROVIDERS) if terms.items() <= row.items()]
    return row


def reason(row: dict[str, Any], kind: str) -> str:
    [sentence] = [reason["sentence"] for reason in row["reasons"] if reason["kind"] == kind]
    return str(sentence)


def test_many_kernels_are_a_reason_with_their_number(kbench: Kbench) -> None:
    [row] = why(kbench, "provider=torch-eager,M=4096,N=4096,dtype=fp32")
    kernels = committed("torch-eager", 4096, 4096)["kernels"]
    assert row["reasons"][0]["kind"] == "many-kernels" and re.search(
        rf"\b{kernels} kernels", reason(row, "many-kernels")
    )
    assert len(row["launches"]) == int(kernels)


def test_more_bytes_than_needed_are_a_reason_with_their_factor(kbench: Kbench) -> None:
    [row] = why(kbench, "provider=torch-eager,M=4096,N=4096,dtype=fp32")
    found = committed("torch-eager", 4096, 4096)
    factor = float(found["achieved_gbps"]) / float(found["gbps"])
    assert f"{factor:.1f}" in reason(row, "extra-bytes")


def test_too_few_blocks_are_a_reason_with_the_blocks_and_the_multiprocessors(kbench: Kbench) -> None:
    [row] = why(kbench, "provider=cuda-naive,M=4096,N=4096,dtype=fp32")
    [launch] = row["launches"]
    blocks, multiprocessors = launch["grid"][0], row["device_limits"]["multiprocessors"]
    assert blocks < multiprocessors
    assert {str(blocks), str(multiprocessors)} <= set(re.findall(r"\d+", reason(row, "few-blocks")))


def test_a_launch_that_takes_longer_than_the_kernel_is_a_reason_with_both_times(kbench: Kbench) -> None:
    [row] = why(kbench, "provider=cuda,M=4096,N=256,dtype=fp32")
    found = committed("cuda", 4096, 256)
    sentence = reason(row, "host-bound")
    assert all(f"{float(found[column]) * 1000:.2f} us" in sentence for column in ("launch_ms", "ms"))


def test_a_kernel_near_the_limit_is_said_to_have_little_to_gain_with_its_share(kbench: Kbench) -> None:
    [row] = why(kbench, "provider=cuda,M=4096,N=12672,dtype=fp32")
    found = committed("cuda", 4096, 12672)
    assert f"{float(found['copy_fraction']):.0%}" in reason(row, "at-speed")


def test_a_row_without_a_time_has_its_status_and_reason(kbench: Kbench) -> None:
    [row] = why(kbench, "provider=liger,M=64")
    found = committed("liger", 64, 151936, "bfloat16")
    assert [reason["kind"] for reason in row["reasons"]] == ["no-time"]
    assert found["status"] in reason(row, "no-time") and found["reason"] in reason(row, "no-time")


def test_versus_puts_another_provider_of_the_case_beside_it(kbench: Kbench) -> None:
    rows = why(kbench, "provider=torch-eager,M=4096,N=4096,dtype=fp32", "--versus", "cuda")
    assert [row["name"] for row in rows] == ["torch-eager", "cuda"]
    assert [row["ms"] for row in rows] == [float(committed(row["name"], 4096, 4096)["ms"]) for row in rows]


def test_why_lists_each_kernel_with_blocks_threads_registers_and_occupancy(kbench: Kbench) -> None:
    ended = kbench("why", PROVIDERS, "--row", "provider=triton,M=4096,N=4096,dtype=fp32")
    [row] = why(kbench, "provider=triton,M=4096,N=4096,dtype=fp32")
    [launch] = row["launches"]
    [line] = [line for line in ended.out.splitlines() if " blocks of " in line]
    for number in (launch["grid"][0], launch["block"][0], launch["kernel"]["registers"]):
        assert re.search(rf"\b{number}\b", line)
    assert launch["kernel"]["name"] in line and "occupancy" in line


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([PROVIDERS], ["--row", "N", "provider"]),
        ([PROVIDERS, "--row", "provider=triton"], ["--row", "N", "more than one"]),
        ([PROVIDERS, "--row", "provider=tritn,N=4096"], ["tritn", "triton"]),
        ([PROVIDERS, "--row", "provider=triton,N=5"], ["N=5", "4096"]),
        ([PROVIDERS, "--row", "provider=triton,N=4096,dtype=fp32", "--versus", "cudda"], ["--versus", "cudda", "cuda"]),
        (["absent.csv"], ["absent.csv"]),
    ],
    ids=["no row", "several rows", "no provider", "no size", "no versus", "no file"],
)
def test_why_names_what_it_cannot_find_and_what_there_is(
    kbench: Kbench, arguments: list[object], words: list[str]
) -> None:
    ended = kbench("why", *arguments)
    assert ended.code == 2 and ended.out == "" and all(word in ended.err for word in words)


# --- dispatch

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


def test_dispatch_writes_a_function_that_names_the_fastest_provider_of_each_shape(choose: Callable[..., str]) -> None:
    for n in SIZES:
        times = {name: factor(name, n) or 9 for name in ("part", "short", "long")}
        assert choose(M=4096, N=n, dtype="float32") == min(times, key=lambda name: times[name])


def test_the_written_file_imports_nothing(dispatched: Path) -> None:
    tree = ast.parse((dispatched / "chosen.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [getattr(node, "module", "") for node in imports] == ["__future__"] * len(imports)


def test_a_provider_is_never_chosen_for_sizes_beyond_those_that_it_ran(choose: Callable[..., str]) -> None:
    assert choose(M=4096, N=700, dtype="float32") == "part"
    assert "part" not in {choose(M=4096, N=n, dtype="float32") for n in (0, 1, 255, 2048, 10**6)}


def test_a_dtype_that_was_not_measured_gets_the_provider_that_ran_everywhere(choose: Callable[..., str]) -> None:
    assert {choose(M=4096, N=n, dtype="float64") for n in (*SIZES, -1, 10**12)} <= {"short", "long"}


def test_dispatch_prints_the_decision_and_its_regret(dispatched: Path) -> None:
    ended = kept(dispatched)
    assert ended.code == 0 and all(name in ended.out for name in ("part", "short", "long"))
    assert re.search(r"regret.*mean 0\.00 %.*worst 0\.00 %", ended.out)


def test_the_regret_is_how_much_slower_the_chosen_provider_is_than_the_fastest(dispatched: Path) -> None:
    """With one provider, that is the better of the two which ran in every case."""
    regrets = {name: [(factor(name, n) or 9) - 1 for n in SIZES] for name in ("short", "long")}
    best = min(regrets, key=lambda name: sum(regrets[name]))
    mean, worst = sum(regrets[best]) / len(SIZES), max(regrets[best])
    out = kept(dispatched, "one").out
    assert re.search(rf"regret at measured.*mean {mean * 100:.2f} %, worst {worst * 100:.2f} % \({best} at", out)
    assert "part" in out  # the fastest of three cases, and the command says why it is never chosen


def test_dispatch_writes_the_decision_as_json_and_as_a_picture_too(dispatched: Path) -> None:
    decision = json.loads((dispatched / "chosen.json").read_text())
    assert decision["operator"] == "softmax" and set(decision["providers"]) == {"part", "short", "long"}
    assert (dispatched / "chosen.png").read_bytes().startswith(b"\x89PNG")


def test_the_written_file_names_its_results_device_and_date(dispatched: Path) -> None:
    head = "\n".join((dispatched / "chosen.py").read_text().splitlines()[:8])
    assert all(word in head for word in ("results.csv", "NVIDIA H200", "2026-11-20", "softmax"))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([PROVIDERS, ROOT / "results" / "h200" / "gelu.csv"], ["softmax", "gelu", "--where"]),
        (["absent.csv"], ["absent.csv"]),
        ([PROVIDERS, "-o", "chosen.txt"], ["chosen.txt", ".py"]),
        ([PROVIDERS, "--where", "N=5"], ["N=5"]),
    ],
    ids=["two operators", "no file", "no Python file", "no row"],
)
def test_dispatch_refuses_what_no_function_can_serve(
    kbench: Kbench, folder: Path, arguments: list[object], words: list[str]
) -> None:
    ended = kbench("dispatch", *arguments)
    assert ended.code == 2 and all(word in ended.err for word in words) and not any(folder.iterdir())
