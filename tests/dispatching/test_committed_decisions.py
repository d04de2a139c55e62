"""`kbench dispatch` of the committed results: the emitted function picks what was fastest, and needs nothing."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from common import ROOT
from decisions import SHORT, TALL, by_json, emitted

from kbench.dispatching.dispatch import DispatchOptions, dispatch
from kbench.dispatching.holdout import held_out
from kbench.dispatching.tree import leaves

GOAL = 0.01
"""The mean regret on held-out shapes is at most this in the committed results."""

FILES = {
    "`results/h200/softmax-peers.csv` (tall)": [TALL],
    "`results/h200/short/softmax-peers.csv`": [SHORT],
    "both": [TALL, SHORT],
}
"""By what the table in docs/dispatch.md calls them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_table_in_the_docs_says_what_the_committed_results_give(name: str) -> None:
    found = dispatch(FILES[name], DispatchOptions(holdout=0))
    once = held_out(found.evidence, limit=3, margin=0.03, share=0.25, splits=1)
    assert once and once.mean <= GOAL
    providers, conditions, mean, worst = documented_regret(name)
    assert providers == len(found.decision.providers)
    assert conditions == len(list(leaves(found.decision.tree))) - 1
    assert min(mean) - 0.005 <= 100 * once.mean <= max(mean) + 0.005  # the table has two digits here
    assert min(worst) - 0.05 <= 100 * once.worst.regret <= max(worst) + 0.05


def documented_regret(name: str) -> tuple[int, int, list[float], list[float]]:
    """The line of docs/dispatch.md about some files: the providers, the conditions, and in per cent the mean regret and the
    worst, each with its range."""
    lines = (ROOT / "docs/dispatch.md").read_text().splitlines()
    [cells] = [cells for line in lines if len(cells := line.split("|")) == 7 and cells[1].strip() == name]
    mean, worst = ([float(number) for number in re.findall(r"[\d.]+", cell)] for cell in cells[4:6])
    return int(cells[2]), int(cells[3]), mean, worst


@pytest.mark.slow
def test_the_files_pick_what_the_table_says_at_every_measured_case(tmp_path: Path) -> None:
    found = dispatch([TALL, SHORT], DispatchOptions(holdout=0))
    choose, document = emitted(found, tmp_path)
    for case, point in enumerate(found.evidence.points):
        chosen = choose(**point)
        assert chosen == found.decision.choose(point) == by_json(document, dict(point))
        assert math.isfinite(found.evidence.measured[case, found.evidence.providers.index(chosen)])
    general = found.evidence.measured[:, found.evidence.providers.index(found.decision.general)]
    assert found.measured.mean <= general.mean()
    assert (tmp_path / "dispatch.png").read_bytes().startswith(b"\x89PNG")
