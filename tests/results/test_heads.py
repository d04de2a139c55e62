"""Every head of a table that kbench prints can be explained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pytest
from common import ROOT

from kbench import summary
from kbench.analysis import analyse
from kbench.commands import check, doctor, list_providers, run_output
from kbench.comparison import report
from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions
from kbench.config import load
from kbench.execute.plan import make_plan
from kbench.explain import find_explanation
from kbench.results.environment import read_environment
from kbench.results.reader import read_results
from kbench.text import terminal

H200 = ROOT / "results" / "h200"
WIDE = 400


def unexplained(heads: Iterable[str], names: Iterable[str] = ()) -> list[str]:
    """The heads that are no names of axes, choices or configurations, and have no paragraph."""
    return [head for head in heads if head and head not in set(names) and not find_explanation(head)]


@pytest.mark.slow
def test_of_list_doctor_check_and_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = list_providers.read_catalog(())
    sweep = load.load_config("softmax").resolve(catalog)
    heads: list[str] = []

    def note(header: Sequence[str], rows: object, **options: object) -> None:
        heads.extend(header)

    for module in (list_providers, doctor):
        monkeypatch.setattr(module, "read_catalog", lambda plugins: catalog)
    monkeypatch.setattr(terminal, "print_table", note)
    list_providers.list_providers(None, ())
    doctor.doctor()
    plan = make_plan(sweep, catalog)
    run_output.print_plan(plan, ("cuda:0", "cuda:1"), spread=False)
    check._print_table([], [], "float32", plan)
    assert {"can run", "found", "MB per call", "expected on", "input"} <= set(heads)
    assert not unexplained(heads, [*sweep.axes, *(one.name for one in sweep.configurations)])


@pytest.mark.parametrize(
    ("files", "options"),
    [
        (("comparing/a/softmax.csv", "comparing/slowed/softmax.csv"), {}),
        (("comparing/a/softmax.csv", "comparing/slowed/softmax.csv"), {"metric": "gbps"}),
        (("comparing/a/softmax.csv", "comparing/slowed/softmax.csv"), {"metric": "launch_ms"}),
    ],
)
def test_of_compare(files: tuple[str, ...], options: dict[str, str]) -> None:
    found = compare_results(*(H200 / file for file in files), options=CompareOptions(**options))
    lines = [line for line in report.text(found, WIDE).splitlines() if line.endswith(("  verdict", "  reason"))]
    heads = [head for line in lines for head in re.split(r"\s{2,}", line.strip())]
    assert len(heads) > 5
    assert not unexplained(heads, ("N", "M"))


@pytest.mark.parametrize("name", ["softmax", "softmax-ladder", "comparing/a/softmax"])
def test_of_the_summary(name: str) -> None:
    path = H200 / f"{name}.csv"
    found = analyse(read_results(path).rows, read_environment(path)[0].baseline)
    tables = [summary.standings_table(found), summary.details_table(found), summary.stages_table(found.rows)]
    heads = [head for shown in tables for head in shown.header]
    assert {"of copy", "ulp", "fastest", "faster/tie/slower", "host to device"} <= {
        head.removesuffix("/?") for head in heads
    }
    assert not unexplained(heads, ("N", "M"))
