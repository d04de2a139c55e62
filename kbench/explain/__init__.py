"""What `kbench explain` says: a paragraph for each status, flag, control, edge input, column, verdict and word.

Every word is explained where it is declared: statuses, flags, controls and edge inputs in results/vocabulary.py,
columns in results/row.py, verdicts in comparison/verdict.py, all other words in glossary.py.
"""

from __future__ import annotations

from typing import NamedTuple

from kbench.comparison.verdict import Verdict
from kbench.explain.glossary import ALIASES, HEADS, WORDS
from kbench.results.row import COLUMNS
from kbench.results.vocabulary import Control, EdgeInput, Flag, Status

KINDS: dict[str, dict[str, str]] = {
    "status": {str(status): status.explanation for status in Status},
    "flag": {str(flag): flag.explanation for flag in Flag},
    "control": {str(control): control.explanation for control in Control},
    "edge input": {str(edge): edge.explanation for edge in EdgeInput},
    "column": {name: column.explanation for name, column in COLUMNS.items()},
    "word": WORDS,
    "verdict": {str(verdict): verdict.explanation for verdict in Verdict},
}
"""Everything that can be explained, by kind. `suspect` is a flag and a verdict; the paragraph on the flag explains both."""


class Explained(NamedTuple):
    """A paragraph, the word that it is under, and the kind of that word."""

    name: str
    kind: str
    text: str


def find_explanation(word: str) -> Explained | None:
    """The paragraph on a word as the screen or a person writes it, or None for a word that kbench does not use."""
    key = " ".join(word.split()).casefold()
    for head, name in HEADS:
        if head.fullmatch(key):
            key = name
    key = next((name for name, synonyms in ALIASES.items() if key in synonyms), key)
    kinds = {kind: name for kind, texts in KINDS.items() for name in texts if name.casefold() == key}
    if not kinds:
        return find_explanation(key[:-1]) if key.endswith("s") else None  # `sessions`
    kind, name = next(iter(kinds.items()))
    return Explained(name, " and ".join(kinds), " ".join(KINDS[kind][name].split()))
