"""`kbench why`: reasons for a time, from results. It measures nothing."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from promises.outside import ROOT, Kbench, providers_of, write_results

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


def test_many_kernels_and_more_bytes_than_needed_are_reasons_with_their_number_and_factor(kbench: Kbench) -> None:
    [row] = why(kbench, "provider=torch-eager,M=4096,N=4096,dtype=fp32")
    measured = committed("torch-eager", 4096, 4096)
    assert row["reasons"][0]["kind"] == "many-kernels" and len(row["launches"]) == int(measured["kernels"])
    assert re.search(rf"\b{measured['kernels']} kernels", reason(row, "many-kernels"))
    factor = float(measured["achieved_gbps"]) / float(measured["gbps"])
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


def test_a_provider_that_is_wrong_in_a_session_has_no_time_but_the_reason(kbench: Kbench, folder: Path) -> None:
    rows = [{"provider": "mine", "ms": 0.1}, {"provider": "mine", "session": 1, "status": "wrong", "reason": "one NaN"}]
    ended = kbench("why", write_results(folder / "mixed.csv", rows), "--json")
    [row] = json.loads(ended.out)["rows"]
    assert row["ms"] is None and "one NaN" in reason(row, "no-time")


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


def test_ncu_prints_one_command_that_measures_the_row_again_under_nsight_compute(kbench: Kbench) -> None:
    ended = kbench("why", PROVIDERS, "--row", "provider=torch-eager,M=4096,N=4096,dtype=fp32", "--ncu")
    [line] = ended.out.splitlines()
    words = shlex.split(line)
    assert ended.code == 0 and words[0] == "ncu"
    assert words[words.index("--launch-count") + 1] == committed("torch-eager", 4096, 4096)["kernels"]
    run = words[words.index("kbench") :]
    assert run[:5] == ["kbench", "run", "softmax-providers.yaml", "--only", "torch-eager"]
    assert {"dtype=float32", "M=4096", "N=4096"} <= set(run)


def test_ncu_has_no_command_for_a_row_without_kernels_and_says_why(kbench: Kbench) -> None:
    ended = kbench("why", PROVIDERS, "--row", "provider=liger,M=64", "--ncu")
    assert ended.code == 3 and ended.out == "" and "--ncu" in ended.err and "liger" in ended.err


def test_a_small_kernel_beside_a_large_one_does_not_explain_a_time(kbench: Kbench, folder: Path) -> None:
    """A product, and a kernel that adds up a few numbers."""
    measured = {"ms": 0.1, "gbps": 671, "sol": 0.3, "copy_fraction": 0.3, "kernels": 2}
    rows = [{"provider": f"{name}-helper", "code": name, **measured} for name in ("small", "large")]
    kernel = {"registers": 32, "local_bytes": 0, "static_shared_bytes": 0, "code": "c0de", "origin": "machine code"}
    launch = {"grid": [2112, 1, 1], "block": [128, 1, 1], "dynamic_shared_bytes": 0, "blocks_per_sm": 16, "times": 1}
    lines: list[dict[str, Any]] = [
        {"kernel": name, "name": name, "symbol": name, **kernel} for name in ("main", "helper")
    ]
    for name, blocks in (("small", 1), ("large", 2112)):
        launches = [{**launch, "kernel": "main"}, {**launch, "kernel": "helper", "grid": [blocks, 1, 1]}]
        lines.append({"call": name, "launches": launches, "memory": []})
    path = write_results(folder / "product.csv", rows)
    path.with_suffix(".kernels.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ended = kbench("why", path, "--row", "provider=small-helper", "--versus", "large-helper", "--json")
    small, large = json.loads(ended.out)["rows"]
    assert "many-kernels" not in {reason["kind"] for reason in small["reasons"]}
    assert large["reasons"][0]["kind"] == "many-kernels"


def test_the_speed_of_the_memory_is_no_limit_for_what_lies_in_the_cache(kbench: Kbench, folder: Path) -> None:
    measured = {"ms": 0.1, "gbps": 13.4, "ceiling_gbps": 14, "sol": 0.96, "copy_fraction": 0.1}
    kinds = {}
    for cache in ("warm", "cold"):
        path = write_results(folder / f"{cache}.csv", [{"provider": "mine", "cache": cache, **measured}])
        [row] = json.loads(kbench("why", path, "--row", "provider=mine", "--json").out)["rows"]
        kinds[cache] = row["reasons"][0]["kind"]
    assert kinds == {"warm": "unknown", "cold": "at-speed"}


def test_code_is_shown_from_the_folder_kernels_beside_the_results(kbench: Kbench, folder: Path) -> None:
    [row] = why(kbench, "provider=triton,M=4096,N=4096,dtype=fp32")
    kernel = row["launches"][0]["kernel"]
    for suffix in (".csv", ".kernels.jsonl"):
        (folder / f"softmax{suffix}").write_bytes(PROVIDERS.with_suffix(suffix).read_bytes())
    arguments = ["why", "softmax.csv", "--row", "provider=triton,M=4096,N=4096,dtype=fp32", "--code", "ptx"]
    missing = kbench(*arguments)
    assert missing.code == 3 and "kernels" in missing.err and f"{kernel['code']}.cubin" in missing.err
    code = folder / "kernels" / kernel["code"]
    code.parent.mkdir()
    code.with_suffix(".cubin").write_bytes(b"machine code")
    code.with_suffix(".ptx").write_text(f".visible .entry {kernel['symbol']}(\n)\n{{\n  ret;\n}}\n")
    shown = kbench(*arguments)
    assert shown.code == 0 and "ret;" in shown.out and kernel["name"] in shown.out


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([PROVIDERS], ["--row", "N", "provider"]),
        ([PROVIDERS, "--row", "provider=triton"], ["--row", "N", "more than one"]),
        ([PROVIDERS, "--row", "provider=tritn,N=4096"], ["tritn", "triton"]),
        ([PROVIDERS, "--row", "provider=triton,N=5"], ["N=5", "4096"]),
        ([PROVIDERS, "--row", "provider=triton,N=4096,dtype=fp32", "--versus", "cudda"], ["--versus", "cudda", "cuda"]),
    ],
    ids=["no row", "several rows", "no provider", "no size", "no versus"],
)
def test_why_names_what_it_cannot_find_and_what_there_is(
    kbench: Kbench, arguments: list[object], words: list[str]
) -> None:
    ended = kbench("why", *arguments)
    assert ended.code == 2 and ended.out == "" and all(word in ended.err for word in words)
