"""What is compared with what: other metrics, several files, the providers of one file, and a choice of rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from making import Write, failed, row
from verdicts import words

from kbench.comparison.compare import compare_results
from kbench.comparison.options import CompareOptions
from kbench.errors import UsageError
from kbench.results.vocabulary import Role


def test_of_a_speed_more_is_better(write: Write) -> None:
    old = write("old", [row(ms=1.0, gbps=2000.0)])
    new = write("new", [row(ms=0.5, gbps=4000.0)])
    [only] = compare_results(old, new, options=CompareOptions(metric="gbps")).rows
    assert (only.verdict, only.ratio) == ("faster", pytest.approx(2.0))
    with pytest.raises(UsageError, match=r'"speed".*gbps'):
        compare_results(old, new, options=CompareOptions(metric="speed"))


def test_a_metric_that_was_not_measured_is_no_failure(write: Write) -> None:
    old = write("old", [row(achieved_gbps=1.0), row(512)])
    assert words(compare_results(old, old, options=CompareOptions(metric="achieved_gbps"))) == ["unclear", "untimed"]


def test_three_files_are_all_compared_with_the_baseline(write: Write) -> None:
    a, b, c = (write(name, [row(1, ms), row(2, ms)]) for name, ms in (("a", 1.0), ("b", 1.5), ("c", 0.5)))
    comparison = compare_results(f"main={a}", f"pr={b}", c)
    assert (comparison.baseline, comparison.contenders) == ("main", ("pr", str(c)))
    assert [(v.contender, v.verdict) for v in comparison.rows] == [("pr", "slower"), (str(c), "faster")] * 2
    assert [g.ratio for g in comparison.geomeans] == pytest.approx([1.5, 0.5])
    other = compare_results(f"main={a}", f"pr={b}", c, options=CompareOptions(baseline="pr"))
    assert other.contenders == ("main", str(c)) and set(words(other)) == {"faster"}
    with pytest.raises(UsageError, match=r'"base".*main, pr'):
        compare_results(f"main={a}", f"pr={b}", options=CompareOptions(baseline="base"))


def test_providers_of_one_file_are_paired_by_session_and_round(write: Write) -> None:
    """Rounds swing by 20 % together: as times the providers could not be told apart, as pairs they can."""
    swings = (1.0, 1.2, 0.9, 1.1, 0.95)
    rows = []
    for n in (1, 2, 3):
        for name, factor in (("torch-native", 1.0), ("triton", 0.95), ("cuda", 1.001)):
            for s, level in enumerate((1.0, 1.1, 0.9)):
                rounds = tuple(level * factor * swing for swing in swings)
                rows.append(row(n, sorted(rounds)[2], name, session=s, round_ms=rounds, samples=100))
    path = write("all", rows)
    comparison = compare_results(path, options=CompareOptions(by="provider", baseline="torch-native"))
    assert comparison.contenders == ("triton", "cuda")
    assert [(v.contender, v.verdict) for v in comparison.rows] == [("triton", "faster"), ("cuda", "same")] * 3
    assert comparison.rows[0].ratio == pytest.approx(0.95)
    with pytest.raises(
        UsageError, match=r"there is no baseline; choose one with --baseline: torch-native, triton, cuda"
    ):
        compare_results(path, options=CompareOptions(by="provider"))
    stated = write("stated", [replace(each, speedup=1.0) if each.provider == "triton" else each for each in rows])
    assert compare_results(stated, options=CompareOptions(by="provider")).baseline == "triton"
    path.with_suffix(".env.json").write_text('{"baseline": "cuda"}')
    assert compare_results(path, options=CompareOptions(by="provider")).baseline == "cuda"
    with pytest.raises(UsageError, match="the providers of one file"):
        compare_results(path, path, options=CompareOptions(by="provider"))
    with pytest.raises(UsageError, match="give two files"):
        compare_results(path)


def test_rounds_that_swing_together_are_no_scatter(write: Write) -> None:
    """One session: what counts is how the ratio of the rounds scatters, not how the rounds do."""
    rounds = (1.0, 1.3, 1.0, 1.25, 1.1)
    slower = tuple(1.1 * ms for ms in rounds)
    path = write("all", [row(ms=1.1, provider="a", round_ms=rounds), row(ms=1.21, provider="b", round_ms=slower)])
    [only] = compare_results(path, options=CompareOptions(by="provider", baseline="a")).rows
    assert only.verdict == "slower" and only.ratio == pytest.approx(1.1)


def test_providers_are_compared_by_the_metric_that_was_asked_for(write: Write) -> None:
    """Twice as fast on the device, and a launch that costs the host three times as much."""
    slow, fast = (
        {"round_ms": (ms,) * 3, "gbps": 100 / ms, "tflops": 3 / ms, "sol": 0.1 / ms, "launch_ms": host}
        for ms, host in ((1.0, 0.01), (0.5, 0.03))
    )
    path = write("all", [row(provider="slow", **slow), row(ms=0.5, provider="fast", **fast)])
    faster = [(metric, "faster", 2.0) for metric in ("gbps", "tflops", "sol")]
    for metric, word, ratio in (("ms", "faster", 0.5), *faster, ("launch_ms", "slower", 3.0)):
        [only] = compare_results(path, options=CompareOptions(by="provider", baseline="slow", metric=metric)).rows
        assert (only.verdict, only.ratio) == (word, pytest.approx(ratio))


def test_a_provider_that_failed_beside_one_that_did_not(write: Write) -> None:
    path = write("all", [row(provider="a"), failed(provider="b"), row(2, provider="a")])
    comparison = compare_results(path, options=CompareOptions(by="provider", baseline="a"))
    assert words(comparison) == ["missing", "failed"]


def test_only_the_rows_that_were_asked_for(write: Write) -> None:
    rows = [row(n, dtype=dtype) for n in (128, 4096) for dtype in ("float32", "bfloat16")]
    a = write("a", rows)
    assert len(compare_results(a, write("b", rows), options=CompareOptions(where="dtype=bf16,N>=4096")).rows) == 1
    with pytest.raises(UsageError):
        compare_results(a, a, options=CompareOptions(where="colour=red"))


def test_providers_are_told_apart_by_as_little_as_the_noise_allows_unless_a_margin_is_asked_for(write: Write) -> None:
    steady = {n: tuple(1.0 + wobble for wobble in (0, 1e-4, -1e-4, 0, 1e-4)) for n in range(1, 21)}
    rows = [
        row(n, factor, provider=name, role=role, round_ms=tuple(factor * ms for ms in rounds), speedup=1 / factor)
        for n, rounds in steady.items()
        for name, role, factor in (
            ("a", "provider", 1.0),
            ("b", "provider", 0.99),
            ("c", "provider", 1.001),
            ("repeat", Role.CONTROL, 1.0005),
        )
    ]
    path = write("all", rows)
    assert compare_results(path, options=CompareOptions(by="provider", baseline="a")).counts == {
        "faster": 20,
        "same": 20,
    }
    assert compare_results(path, options=CompareOptions(by="provider", baseline="a", margin=0.05)).counts == {
        "same": 40
    }


@pytest.mark.parametrize("status", ["checked", "unsupported", "unavailable"])
def test_a_provider_that_was_not_timed_beside_another_is_untimed_not_missing(write: Write, status: str) -> None:
    path = write("all", [row(provider="base"), failed(provider="other", status=status)])
    for baseline, reason in (("base", status), ("other", f"baseline: {status}")):
        [only] = compare_results(path, options=CompareOptions(by="provider", baseline=baseline)).rows
        assert only.verdict == "untimed" and only.reason.startswith(reason)
