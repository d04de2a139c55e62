"""The sentences about the lines of a script, from rows: what no host can show."""

from __future__ import annotations

from making import row

from kbench.analysis.audit import audit
from kbench.results.row import Row
from kbench.results.vocabulary import NO_TENSORS


def line(provider: str, n: int = 256, **fields: object) -> Row:
    return row(n, provider=provider, flags=("unchecked",), **fields)


def test_do_bench_that_times_the_host_is_named_with_by_how_much() -> None:
    rows = [line("quack", n, ms=0.007, script_ms=0.052, launch_ms=0.045) for n in (256, 512)]
    [sentence] = audit(rows)
    assert sentence == (
        "For quack, the script's timer times the host, not the device, in 2 of 2 cases. "
        "At M=4096 N=256 it reads 52 us. kbench measures 7 us, "
        "and a launch takes the host 45 us. In these cases the script's times are 7.4 times as long as kbench's (median)."
    )


def test_a_small_difference_to_do_bench_is_jitter() -> None:
    assert audit([line("a", ms=0.007, script_ms=0.0085, launch_ms=0.01)]) == []  # 1.5 us
    assert audit([line("a", ms=1.0, script_ms=1.1, launch_ms=0.01)]) == []  # 10 %


def test_a_timer_that_leaves_the_inputs_in_the_cache_is_told_beside_a_cold_cache_only() -> None:
    times = {"ms": 0.02, "script_ms": 0.008, "noticed": "warm", "launch_ms": 0.007}
    [sentence] = audit([line("a", cache="cold", **times)])
    assert "inputs of a in the cache" in sentence and "8 us" in sentence and "20 us" in sentence
    assert audit([line("a", cache="warm", **times)]) == []
    [by_host] = audit([line("a", cache="cold", **times | {"script_ms": 0.045, "launch_ms": 0.04})])
    assert "times the host" in by_host  # although it finds its inputs there


def test_counts_that_differ_by_rounding_are_equal() -> None:
    assert audit([line("a", counted=100_000), line("b", counted=100_900)]) == []
    [sentence] = audit([line("a", counted=100_000), line("b", counted=102_000, tflops=1.0)])
    assert "it counts 100,000 FLOP per call for a; 102,000 for b" in sentence


def test_a_line_that_launches_nothing_is_named() -> None:
    [sentence] = audit([line("a", ms=0.002, noticed="launches-nothing")])
    assert sentence.startswith("a runs nothing on the device, in 1 of 1 case.")


def test_an_output_that_cannot_be_compared_names_the_closure_to_change() -> None:
    def advice(who: str) -> str:
        [sentence] = audit([line("a", agreement=f"not comparable: {who} {NO_TENSORS}")])
        return sentence.partition(f"{NO_TENSORS}. ")[2]

    assert advice("it") == "Let its closure return a tensor, or a tuple of tensors only."
    assert advice("the baseline") == "Let the baseline's closure return a tensor, or a tuple of tensors only."
    [sentence] = audit([line("a", agreement="not comparable: it returns 2 tensors, and the baseline 1")])
    assert sentence.endswith("and the baseline 1.")
