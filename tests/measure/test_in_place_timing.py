"""Timing beside providers that change an input: it is restored before every sample, and every value was checked."""

from __future__ import annotations

import re

import pytest
from in_process import case_run, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import Samples

ITSELF = Declared("N")


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_inputs_are_restored_before_every_sample_and_not_in_it(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each timed call of an in-place provider finds the values of an input, salted or not; a warm-up call need not."""
    log: list[str] = []
    twice = Operator(
        f"in-place-twice-{cache}",
        axes=("N",),
        inputs={"x": ITSELF, "other": ITSELF},
        outputs={"y": ITSELF},
        reference=lambda x, other: x * 2 + other,
        mutates={"x": "y"},
    )

    @twice.provider("in-place")
    def call(x: Tensor, other: Tensor) -> None:
        log.append(f"call {x[0].item():.3f}")
        x.mul_(2).add_(other)

    ready = BenchTimer.ready

    def watched(self: BenchTimer, runs, launch_ms, before=None):  # type: ignore[no-untyped-def]
        def noted() -> None:
            log.append("restore")
            before()

        sample = ready(self, runs, launch_ms, noted if before else None)

        def sampled(warmup_ms: float, rep_ms: float) -> Samples:
            log.append("round")
            samples = sample(warmup_ms, rep_ms)
            log.append(f"end {len(samples.ms)}")
            return samples

        return sampled if before else sample

    monkeypatch.setattr(BenchTimer, "ready", watched)
    run = case_run(twice, cache=cache, rounds=2, N=16)
    rows = {row.provider: row for row in run.run()}
    assert said(rows["in-place"]) == "ok" and said(rows["repeat"]) == "ok"
    valid = {f"call {value:.3f}" for name in ("timed", "second") for value in run.drawn.draw(name)[0].tolist()}
    text = " ".join(log)
    rounds = re.findall(r"round (.*?) end (\d+)", text)
    assert len(rounds) == 4  # two of the provider, two of `repeat`
    for inside, samples in rounds:
        assert inside.count("restore") >= int(samples)
        timed = re.findall(r"restore (call -?[0-9.]+)", inside)
        assert len(timed) >= int(samples) and set(timed) <= valid


def test_a_provider_beside_an_in_place_one_is_timed_on_the_values_that_it_was_checked_on() -> None:
    found: list[float] = []
    beside = Operator(
        "in-place-beside",
        axes=("N",),
        inputs={"x": ITSELF},
        outputs={"y": ITSELF},
        reference=lambda x: x + 1,
    )
    beside.provider("in-place", mutates={"x": "y"})(lambda x: x.add_(1) and None)

    @beside.provider("beside")
    def _beside(x: Tensor) -> Tensor:
        found.append(x[0].item())
        return x + 1

    run = case_run(beside, ["beside", "in-place"], rounds=3, N=1)
    assert {said(row) for row in run.run()} == {"ok"}
    values = {run.drawn.draw(name)[0][0].item() for name in ("timed", "second", "last")}
    assert set(found) == values
