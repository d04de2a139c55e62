"""The tables of a summary name the same winners and the same noise floor as the analysis, for every committed file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kbench import summary
from kbench.analysis.files import load_sources

RESULTS = Path(__file__).resolve().parents[2] / "results" / "h200"
FILES = sorted(RESULTS.rglob("*.csv"))


def test_there_are_files() -> None:
    assert len(FILES) >= 16


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_the_tables_agree_with_the_analysis(path: Path) -> None:
    [source] = load_sources([path])
    analysis = source.analysis
    details, times = summary.details_table(analysis), summary.times_table(analysis)
    assert times is not None
    fastest = [line[details.header.index("fastest")].split(" ")[0] for line in details.rows]
    assert Counter(fastest) == Counter(won.configuration_name for won in analysis.winners)
    marked = Counter(cell[-1] for line in times.rows for cell in line if cell[-1] in "*~?")
    assert marked["*"] == sum(won.sole for won in analysis.winners)
    assert summary.caveats(analysis)[0] == analysis.noise.sentence()
