"""`kbench explain` has a paragraph for whatever a report can say, and it says what the code does."""

from __future__ import annotations

import pytest

from kbench.contract import registry
from kbench.contract.origin import shipped
from kbench.explain import KINDS, find_explanation
from kbench.measure import flags
from kbench.measure.correctness.common_edges import edge_names
from kbench.measure.timing.do_bench import MAX_PREFILL_MS
from kbench.results.case import MODES


def test_every_edge_input_of_an_operator_of_kbench_has_a_paragraph() -> None:
    operators = [registry.operator(name) for name in shipped()]
    names = {name for operator in operators for mode in MODES for name in edge_names(operator, mode)}
    assert {name for name in names if not find_explanation(name)} == set()
    assert set(KINDS["edge input"]) - names == {"smallest integers", "largest integers"}  # of operators of a user


@pytest.mark.parametrize(
    ("flag", "figures"),
    [
        (
            "suspect",
            (
                f"{flags.MARGIN:g}",
                f"{flags.COPY_SHARE:g}",
                f"{flags.HOST_COPY_SHARE:g}",
                f"factor of {flags.COMPUTE_MARGIN:g} ",
                f"factor of {flags.SHORTER_MARGIN:g} ",
            ),
        ),
        ("host-bound", (f"{MAX_PREFILL_MS:g} ms",)),
        ("overhead-bound", (f"{100 * flags.OVERHEAD_SHARE:g} %",)),
        (
            "noisy",
            (
                f"{100 * flags.ROUND_SPREAD:g} %",
                f"{flags.ROUND_TICKS * flags.TICK_MS * 1e6:g} ns",
                f"{100 * flags.SAMPLE_SPREAD:g} %",
                f"{flags.SAMPLE_JITTER_MS * 1e3:g} us",
            ),
        ),
    ],
)
def test_thresholds_are_those_of_the_code(flag: str, figures: tuple[str, ...]) -> None:
    text = KINDS["flag"][flag]
    assert all(figure in text for figure in figures), (flag, figures, text)
