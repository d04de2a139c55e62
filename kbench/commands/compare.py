"""`kbench compare`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kbench import comparison
from kbench.comparison import Comparison
from kbench.comparison.formats import FORMATS
from kbench.comparison.formats import github as actions
from kbench.comparison.formats import terminal as tables
from kbench.comparison.presentation.rows import QUIET
from kbench.comparison.verdict import WORDS
from kbench.errors import ResultsError, UsageError
from kbench.files import replace
from kbench.text import terminal
from kbench.text.suggest import unknown

EXIT_CODES = {"passed": 0, "failed": 1, "undecided": 3}

CHANGED = frozenset(WORDS) - QUIET


def read(
    files: Sequence[str],
    *,
    by: str,
    baseline: str | None,
    where: str,
    metric: str,
    margin: str | None,
    vary: str | None,
    fail_on: str | None,
    strict: bool,
) -> Comparison:
    """The comparison that the options ask for, with its gate."""
    return comparison.compare(
        *files,
        by=by,
        baseline=baseline,
        where=where,
        metric=metric,
        margin=None if margin is None else share(margin),
        vary=_words(vary),
        fail_on=_verdicts("--fail-on", fail_on, {}),
        strict=strict,
    )


def show(found: Comparison, *, sort: str, only: str | None, exports: Sequence[str], github: bool) -> None:
    """Write the exports, and print the table; an export that goes to stdout takes the table's place. Of files that have
    nothing in common there is no table: `judge` says so."""
    shown = _verdicts("--only", only, {"changed": CHANGED})
    targets = _targets(exports, github)
    printed = tables.text(found, terminal.width(), sort, shown, colour=terminal.colours())
    if found.nothing_common:
        printed = ""
    for path, name in targets.items():
        text = FORMATS[name](found)
        if path is None:
            printed = text
        else:
            _replace(path, text)
    terminal.write(printed, commands=targets.get(None) == "github")


def judge(found: Comparison, *, github: bool) -> int:
    """The exit code; says on stderr why it is not 0."""
    result = found.gate.judge(found)
    if not result.passed:
        terminal.error(result.text)
    elif not found.gate.fail_on and os.environ.get("CI"):
        terminal.warn("the exit code says nothing about the verdicts; add --fail-on slower,missing,failed")
    if github:
        _tell_github(found)
    return EXIT_CODES[result.outcome]


def share(text: str) -> float:
    """`5%` or `0.05`. Raises UsageError."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UsageError(f"--margin {text!r} is not a share; write 2% or 0.02") from None


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _verdicts(option: str, text: str | None, groups: dict[str, Collection[str]]) -> list[str]:
    """Verdict words and groups of them, separated by commas, as an option names them. Raises UsageError for a word that is
    none."""
    found: list[str] = []
    for word in _words(text):
        if word not in groups and word not in WORDS:
            raise UsageError(f"{option}: {unknown('verdict', word, (*groups, *WORDS))}")
        found += groups.get(word, [word])
    return found


def _targets(exports: Sequence[str], github: bool) -> dict[Path | None, str]:
    """Formats by where they go, from `json=c.json`, or `json=-` for stdout. Raises UsageError, also for two at one place."""
    found: dict[Path | None, str] = {}
    for text in exports:
        name, sign, path = text.partition("=")
        if not sign or not path or name not in FORMATS:
            raise UsageError(f"--export {text!r}: write FORMAT=FILE; formats are {', '.join(FORMATS)}")
        target = None if path == "-" else Path(path)
        if target in found:
            raise UsageError(f"--export {text!r}: {found[target]} goes there too; give each a place of its own")
        if target is None and github:
            raise UsageError(f"--export {text!r}: --github writes to stdout as well; give the export a file")
        found[target] = name
    return found


def _replace(path: Path, text: str) -> None:
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode("utf-8", "replace"))


def _append(path: Path, text: str) -> None:
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror or error}); choose another place") from None


def _tell_github(found: Comparison) -> None:
    """Annotations to stdout, where the runner reads them, and the files that it names in the environment."""
    terminal.write(actions.text(found), commands=True)
    for variable, text in (
        ("GITHUB_STEP_SUMMARY", actions.step_summary(found)),
        ("GITHUB_OUTPUT", actions.outputs(found)),
    ):
        if path := os.environ.get(variable):
            _append(Path(path), text)
