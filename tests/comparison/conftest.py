"""Comparisons for tests: of one key, with every verdict, of 10,000 rows, and ugly ones."""

from __future__ import annotations

import pytest
from making import failed, row, write_rows

from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Comparison
from kbench.results.row import Row
from kbench.results.vocabulary import Role

OLD, NEW = "main", "pr 7"


def measured(n: int, ms: tuple[float, ...], **fields: object) -> list[Row]:
    """A row in three sessions, with its rounds and speed."""
    return [
        row(n, t, session=s, gbps=100 / t, samples=200, round_ms=(t, 1.002 * t, 0.998 * t), **fields)
        for s, t in enumerate(ms)
    ]


STEADY, SLOW, FAST, WILD = (
    (0.0314, 0.0315, 0.0314),
    (0.0330, 0.0331, 0.0330),
    (0.03, 0.0301, 0.03),
    (0.03, 0.035, 0.031),
)
COPIES = [r for n in range(20, 30) for r in measured(n, STEADY, provider="copy", role=Role.CONTROL)]


@pytest.fixture(scope="session")
def every(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A comparison with every verdict: row N=1 is slower, 2 failed, ... 10 to 19 are the same, 40 is untimed."""
    old = [*measured(1, STEADY), *measured(2, STEADY), *measured(3, STEADY), *measured(4, STEADY), *measured(5, STEADY)]
    new = [*measured(1, SLOW), *measured(4, (1e-5,) * 3, flags=("suspect",)), *measured(5, FAST)]
    old += [failed(6, session=s) for s in range(3)] + measured(8, STEADY) + measured(9, STEADY)
    new += [failed(2, session=s) for s in range(3)] + measured(6, STEADY) + measured(7, STEADY)
    new += measured(8, STEADY, cache="warm") + measured(9, WILD)
    same = [r for n in range(10, 20) for r in measured(n, STEADY)]
    same += [failed(40, status="unsupported", session=s) for s in range(3)]
    folder = tmp_path_factory.mktemp("every")
    old_csv = write_rows(folder / "old.csv", [*old, *same, *COPIES])
    new_csv = write_rows(folder / "new.csv", [*new, *same, *COPIES])
    return compare_results(f"{OLD}={old_csv}", f"{NEW}={new_csv}", options=CompareOptions(vary=("torch",)))
