"""Elements that fail at a scale which is estimated too small by chance are judged again at a better estimate."""

from __future__ import annotations

import pytest
import torch
from in_process import matrices

from kbench.measure.correctness import elements, expected
from kbench.measure.correctness.check import accuracy, compared
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected


def mixed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """In bfloat16, all terms are rounded, and all sums. They often cancel."""
    c, d = a.roll(1, -1), b.roll(1, -1)
    return a * b - c * d - a * d + b * c


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "sliced"), [("M", True), (None, False)])
def test_a_right_provider_does_not_fail_by_chance(
    rows: str | None, sliced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sliced:
        monkeypatch.setattr(expected, "CHUNK_ELEMENTS", 2**14)
    one = matrices(f"mixed-{rows}", mixed, "a b", rows=rows)
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(64, 1024, generator=generator).bfloat16() for _ in range(2)]
    case = one.case("bfloat16", M=64, N=1024)
    output = mixed(*inputs)
    assert accuracy(one, case, inputs, output).wrong is None
    monkeypatch.setattr(elements, "DOUBTFUL_COUNT", 0)
    monkeypatch.setattr(elements, "DOUBTFUL_SHARE", 0.0)
    assert accuracy(one, case, inputs, output).wrong  # so the second estimate decides


def test_all_providers_share_the_second_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "FEW_ROWS", 0.0)
    references: list[int] = []

    def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        references.append(len(a))
        return mixed(a, b)

    counted = matrices("counted-estimates", reference, "a b", rows="M")
    inputs = [torch.randn(64, 32, generator=torch.Generator().manual_seed(0)).bfloat16() for _ in range(2)]
    wrong = mixed(*inputs)
    wrong[17, 5] += 0.25
    shared = Expected(Definition(counted, counted.case("bfloat16", M=64, N=32)), inputs)
    counts = []
    for _ in range(2):
        references.clear()
        assert "1 of 2048 elements wrong, all in column 5; first at [17" in str(compared(shared, [wrong]).wrong)
        counts.append(len(references))
    assert counts == [1 + 8 + 1 + 12 + 1 + 64, 0]
