"""`kbench explain`: prints what a word means."""

from __future__ import annotations

from typing import Annotated

import typer

from kbench.errors import UsageError
from kbench.text import terminal
from kbench.text.suggest import as_written, nearest


def explain(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="The words to explain. Default: list all words.")
    ] = None,
) -> None:
    """Explain a word that kbench prints.

    The word may be a status, a flag, a verdict, a control, a column, or a term such as geomean. Many explanations also
    say what to do.
    """
    from kbench import explain as texts

    if not words:
        for kind, names in texts.KINDS.items():
            terminal.console().print(f"{kind}: {', '.join(names)}", markup=False)
        return
    # `of copy` and `noise floor` are one name of two words, typed with or without quotes
    together = " ".join(words)
    phrases = [together] if texts.find_explanation(together) else words
    explanations = [(word, texts.find_explanation(word)) for word in phrases]
    for word, text in explanations:
        if text is not None:
            is_name = word.casefold() == text.name.casefold()
            label = f"{text.name} ({text.kind})" if is_name else f"{word} = {text.name} ({text.kind})"
            terminal.console().print(f"{label}: {text.text}", markup=False)
    if missing := [word for word, text in explanations if text is None]:
        raise UsageError("\n".join(map(_unknown, missing)))


def _unknown(word: str) -> str:
    from kbench import explain as texts

    near = nearest(word, [name for names in (*texts.KINDS.values(), *texts.ALIASES.values()) for name in names])
    hint = f'did you mean "{near}"?' if near else "run `kbench explain` to list all words"
    if "_" in word:
        hint += "; `kbench schema judge` describes the keys of the JSON"
    return f"kbench explain: unknown word {as_written(word)}; {hint}"
