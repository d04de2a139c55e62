"""How often a case occurs, and which models have it: from the command line to the results, the summary, the comparison, the
picture and the report."""

from __future__ import annotations

import math
import re

import pytest
from common import Kbench
from making import Write, row

from kbench.analysis import analyse
from kbench.comparison import stats
from kbench.comparison.compare import compare_results
from kbench.results.row import Row
from kbench.summary.sentences import caveats, headline


def pair(n: int, ratio: float, weight: float | None, session: int = 0) -> list[Row]:
    """The rows of a baseline and of a provider that is `ratio` times as fast."""
    more = {"session": session, "weight": weight}
    rounds = (1.0,) * 5
    return [
        row(n, 1.0, "torch", speedup=1.0, round_ms=rounds, **more),
        row(n, 1 / ratio, "mine", round_ms=tuple(ms / ratio for ms in rounds), **more),
        row(n, 1.0, "repeat", role="control", round_ms=rounds, **more),
    ]


WEIGHTED = [*pair(1, 4.0, 3.0), *pair(2, 1.0, 1.0)]
MEAN = math.exp(3 / 4 * math.log(4))


def test_the_mean_over_cases_is_weighted_and_says_so() -> None:
    found = analyse(WEIGHTED, "torch")
    [best, _] = found.standings
    assert best.mean() == pytest.approx(MEAN)
    assert headline(found).startswith(f"mine is fastest in 1 of 2 cases and tied in 1 more; {MEAN:.2f}x as fast as torch "
                                       "(geomean, weighted)")  # fmt: skip
    assert "geometric means are weighted by how often each case occurs (column weight)" in caveats(found)
    plain = analyse([*pair(1, 4.0, None), *pair(2, 1.0, None)], "torch")
    assert plain.standings[0].mean() == pytest.approx(2.0)
    assert "(geomean)" in headline(plain) and "weighted" not in str(caveats(plain))


def test_a_case_without_a_weight_counts_once() -> None:
    mixed = analyse([*pair(1, 4.0, 3.0), *pair(2, 1.0, None)], "torch")
    assert mixed.standings[0].mean() == pytest.approx(MEAN)
    damaged = analyse([*pair(1, 4.0, -1.0), *pair(2, 1.0, math.inf)], "torch")
    assert damaged.standings[0].mean() == pytest.approx(2.0), "such weights are not believed"


def test_a_comparison_of_files_is_weighted_and_notes_other_weights(write: Write, kbench: Kbench) -> None:
    old = write("old", [row(1, 1.0, weight=3.0), row(2, 1.0, weight=1.0)])
    new = write("new", [row(1, 4.0, weight=3.0), row(2, 1.0, weight=5.0)])
    plain = write("plain", [row(1, 1.0), row(2, 1.0)])
    found = compare_results(old, new)
    assert found.geomean.ratio == pytest.approx(MEAN)
    used = f"the geometric mean uses the weights of {old}, or of {new} where {old} has none"
    assert f"the weights of 1 row differ between {old} and {new}; {used}" in found.notes
    assert compare_results(plain, new).geomean.ratio == pytest.approx(math.exp(3 / 8 * math.log(4)))
    without = compare_results(plain, plain).geomean
    assert not without.weighted and without.ratio == pytest.approx(1.0)
    said = kbench("compare", old, new).stdout
    assert re.search(r"geomean of time ratios \S+ over 2 of 2 rows, weighted$", said, re.MULTILINE), said


def test_the_interval_of_a_weighted_mean_is_that_of_the_heavy_row() -> None:
    """A row that counts alone decides how well the mean is known."""
    import numpy as np

    generator = np.random.default_rng(0)
    old = np.zeros((6, 8)) + generator.normal(0, 1e-3, (6, 8))
    new = np.zeros((6, 8)) + generator.normal(0, 1e-3, (6, 8))
    new[0] += generator.normal(0.5, 0.1, 8)
    weights = np.array([1.0, *[1e-9] * 5]), np.array([1e-9, *[1.0] * 5])
    heavy, light = (stats.estimate_effects(old, new, np.zeros(6), each, np.zeros(6)) for each in weights)
    assert heavy.mean == pytest.approx(0.5, abs=0.1) and light.mean == pytest.approx(0.0, abs=1e-2)
    assert heavy.mean_half_width > 20 * light.mean_half_width
