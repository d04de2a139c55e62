"""The kernel that moves the results of a reference on a GPU does what torch does on a host."""

from __future__ import annotations

import pytest
import torch

from kbench.measure.correctness.error_scale import LARGEST_MOVE, MOVES_SEED, PART, STEP

pytest.importorskip("triton")

from kbench.measure.correctness.moves_kernel import move

COUNT = 4 * PART * 3 + 100


def moved(values: torch.Tensor, terms: torch.Tensor | None = None, number: int = 1) -> torch.Tensor:
    result = values.clone()
    other = result if terms is None else terms
    move[(4,)](result, other, (MOVES_SEED << 32) + number, len(values), LARGEST_MOVE * 2**-31, terms is not None, PART)
    return result


def normal(seed: int) -> torch.Tensor:
    return torch.randn(COUNT, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_values_that_float32_cannot_hold_move_evenly_and_independently() -> None:
    x = normal(0)
    changes = torch.stack([moved(x, number=number) / x - 1 for number in (1, 2)])
    assert changes.abs().max() <= LARGEST_MOVE * 1.01
    assert changes.abs().max() > LARGEST_MOVE * 0.99
    assert abs(changes.square().mean().sqrt() / STEP - 1) < 0.03
    assert abs(changes.mean() / STEP) < 0.05
    parts = changes.view(2, -1)[:, : 4 * PART * 3].reshape(-1, PART) / STEP
    correlations = parts @ parts.T / PART - torch.diag(parts.square().mean(1))
    assert correlations.abs().max() < 0.25, "all parts of both calls have moves of their own"


def test_moved_values_fit_float32_and_do_not_move_again() -> None:
    x = moved(normal(0))
    assert x.equal(x.float().double()) and moved(x, number=2).equal(x)
    special = torch.tensor([0.0, torch.inf, -torch.inf, 3.0, torch.nan], dtype=torch.float64)
    assert moved(special)[:4].equal(special[:4]) and moved(special)[4].isnan()


@pytest.mark.parametrize("term", [0.3, -1.7, 2.0, 0.0])
def test_a_sum_that_cancels_moves_by_the_size_of_its_terms(term: float) -> None:
    terms = torch.full((COUNT,), term, dtype=torch.float64)
    total = torch.zeros_like(terms)
    total[::2] = 0.7
    result = moved(total, terms)
    assert (result[::2] - 0.7).abs().max() <= LARGEST_MOVE * 0.71
    change = result[1::2].square().mean().sqrt()
    assert change == 0 if term == round(term) else abs(change / (STEP * abs(term)) - 1) < 0.05
