"""`kbench explain`."""

from __future__ import annotations

from collections.abc import Sequence

from kbench import explain as texts
from kbench.config.yaml_source import unknown
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.explain.glossary import ALIASES
from kbench.text import terminal


def explain(words: Sequence[str]) -> int:
    """Print a paragraph on each word; without one, the words that have a paragraph.

    `of copy` and `noise floor` are one word of two parts, however they are typed. Raises ConfigError for any other word.
    """
    if not words:
        for kind, names in texts.listing().items():
            terminal.console().print(f"{kind}: {', '.join(names)}", markup=False)
        return 0
    together = " ".join(words)
    asked = [together] if texts.find(together) else list(words)
    found = [(word, texts.find(word)) for word in asked]
    known = [name for names in texts.listing().values() for name in names] + list(ALIASES)
    problems = [
        ConfigIssue(SourceLocation("kbench explain"), unknown("word", word, known))
        for word, text in found
        if text is None
    ]
    if problems:
        raise ConfigError(problems)
    for word, text in found:
        if text is not None:
            same = word.casefold() == text.name.casefold()
            label = f"{text.name} ({text.kind})" if same else f"{word}, that is {text.name} ({text.kind})"
            terminal.console().print(f"{label}: {text.text}", markup=False)
    return 0
