"""The same file has the same noise floor and the same winners wherever kbench names them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from kbench.plotting.heatmap import winners_of

from kbench import summary
from kbench.analysis import Outcome
from kbench.analysis.files import load_sources

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
    times = summary.times_table(found)
    marked = Counter(cell[-1] for line in times.rows for cell in line if cell[-1] in "*~?")
    assert marked["*"] == sum(won.sole for won in found.winners if len(found.cases[won.key]) > 1)
    assert summary.caveats(found)[0] == found.noise.sentence()

    axes = list(found.winners[0].case.axes)
    length = "N" if "N" in axes else "V"
    drawn, _ = winners_of([source], axes, length)
    assert list(drawn[["curve", "tied", "unclear"]].itertuples(index=False, name=None)) == said
