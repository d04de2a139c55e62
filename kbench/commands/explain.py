"""`kbench explain`."""

from __future__ import annotations

from kbench import explain as texts
from kbench import terminal
from kbench.located import ConfigError, Problem, Where, unknown


def explain(word: str | None) -> int:
    """Print the paragraph on a word; without one, the words that have one. Raises ConfigError for any other word."""
    if word is None:
        for kind, words in texts.KINDS.items():
            print(f"{kind}: {', '.join(words)}")
        return 0
    found = texts.paragraph(word)
    if found is None:
        known = [name for words in texts.KINDS.values() for name in words]
        raise ConfigError([Problem(Where("kbench explain"), unknown("word", word, known))])
    kind, text = found
    terminal.console().print(f"{word} ({kind}): {text}", markup=False)
    return 0
