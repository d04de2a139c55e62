"""The same file has the same noise floor and the same winners wherever kbench names them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kbench import summary
from kbench.analysis import Analysis, Outcome, Winner
from kbench.analysis.files import load_sources
from kbench.comparison.compare import compare_results
from kbench.comparison.options import CompareOptions
from kbench.plotting.picture_plan import Choices, plan_pictures
from kbench.plotting.selection.winners import winners_of
from kbench.results.case import configuration_name

RESULTS = Path(__file__).resolve().parents[2] / "results" / "h200"
FILES = sorted(RESULTS.rglob("*.csv"))
WORDS = {Outcome.SLOWER: "slower", Outcome.FASTER: "faster", Outcome.TIE: "same", Outcome.UNCLEAR: "unclear"}


def test_there_are_files() -> None:
    assert len(FILES) >= 16


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_run_compare_and_plot_agree(path: Path) -> None:
    [source] = load_sources([path])
    found = source.analysis
    said = [(won.configuration_name, won.tied, won.unclear) for won in found.winners]

    table = summary.details_table(found)
    assert Counter(line[table.header.index("fastest")].split(" ")[0] for line in table.rows) == Counter(
        name for name, *_ in said
    )
    [times] = summary.times_tables(found)
    marked = Counter(cell[-1] for line in times.rows for cell in line if cell[-1] in "*~?")
    assert marked["*"] == sum(won.sole for won in found.winners if len(found.cases[won.key]) > 1)
    assert summary.caveats(found)[0] == found.noise.sentence()

    axes = list(found.winners[0].case.axes)
    length = "N" if "N" in axes else "V"
    assert found.noise.sentence() in plan_pictures([source], Choices(kind="heatmap", x=length, by=["dtype"])).caption
    drawn, _ = winners_of([source], axes, length)
    assert list(drawn[["curve", "tied", "unclear"]].itertuples(index=False, name=None)) == said

    _compare_agrees(path, found)


def _compare_agrees(path: Path, found: Analysis) -> None:
    """Against the configuration that wins most, compare calls everybody slower where it won, and the same where it ties."""
    best = Counter(won.configuration_name for won in found.winners).most_common(1)[0][0]
    comparison = compare_results(path, options=CompareOptions(by="provider", baseline=best))
    assert {drift.noise for drift in comparison.drifts.values()} <= {found.noise.floor or 0.0}
    cases = {(won.case.key, won.configuration_name): won for won in found.winners}
    words = {(row.key.case, row.contender): row.verdict for row in comparison.rows if row.ratio is not None}
    checked = 0
    for ((operator, axes, dtype), contender), word in words.items():
        won: Winner | None = cases.get(((operator, axes, dtype), best))
        if won:
            outcome = (
                Outcome.UNCLEAR
                if contender in won.unclear
                else Outcome.TIE
                if contender in won.tied
                else Outcome.SLOWER
            )
            assert word == WORDS[outcome], (path.name, axes, contender)
            checked += 1
    assert (
        checked
        or len({configuration_name(row.provider, row.params) for row in found.rows if row.role == "provider"}) == 1
    )
