"""`kbench explain` has a paragraph for whatever a report can say, and it says what the code does."""

from __future__ import annotations

from collections import Counter

import pytest

from kbench.contract import registry
from kbench.contract.origin import shipped
from kbench.explain import KINDS, explained_words, find_explanation
from kbench.explain.glossary import ALIASES, HEADS
from kbench.measure import flags
from kbench.measure.correctness.common_edges import edge_names
from kbench.measure.timing.do_bench import MAX_PREFILL_MS
from kbench.results.case import MODES


def test_every_edge_input_of_an_operator_of_kbench_has_a_paragraph() -> None:
    operators = [registry.operator(name) for name in shipped()]
    names = {name for operator in operators for mode in MODES for name in edge_names(operator, mode)}
    assert {name for name in names if not find_explanation(name)} == set()
    assert set(KINDS["edge input"]) - names == {"smallest integers", "largest integers"}  # of operators of a user


def test_no_word_but_suspect_has_two_meanings() -> None:
    words = Counter(word for texts in KINDS.values() for word in texts)
    assert [word for word, count in words.items() if count > 1] == ["suspect"]
    explained = find_explanation("suspect")
    assert explained and explained.kind == "flag and verdict" and explained.text.startswith("The row is faster")


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


def test_words_as_the_screen_writes_them_lead_to_a_paragraph() -> None:
    for printed, name in {
        "Noise  Floor": "noise floor",
        "vs torch-native": "speedup",
        "time - drift": "change",
    }.items():
        explained = find_explanation(printed)
        assert explained and explained.name == name
    assert all(name == name.casefold() for name in ALIASES)
    for name, meant in [*ALIASES.items(), *((head.pattern, word) for head, word in HEADS)]:
        assert find_explanation(meant), (name, meant)
    words = {word.casefold() for words in explained_words().values() for word in words}
    assert not words & set(ALIASES), "a word with a paragraph of its own needs no other"
