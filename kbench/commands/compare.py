"""`kbench compare`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kbench import comparison, terminal
from kbench.comparison import Comparison
from kbench.comparison.formats import FORMATS
from kbench.comparison.formats import github as actions
from kbench.comparison.formats import terminal as tables
from kbench.comparison.formats.rows import QUIET
from kbench.comparison.verdict import WORDS
from kbench.results import ResultsError
from kbench.table import TableError

PASSED, FAILED, INCOMPARABLE = 0, 1, 3

CHANGED = frozenset(WORDS) - QUIET


def read(
    files: Sequence[str],
    *,
    by: str,
    baseline: str | None,
    where: str,
    metric: str,
    margin: str,
    vary: str | None,
) -> Comparison:
    """The comparison that the options ask for."""
    varied = _words(vary)
    return comparison.compare(
        *files, by=by, baseline=baseline, where=where, metric=metric, margin=_share(margin), vary=varied
    )


def show(found: Comparison, *, sort: str, only: str | None, exports: Sequence[str], github: bool) -> None:
    """Write the exports, and print the table; an export that goes to stdout takes the table's place."""
    shown = _verdicts(only, {"changed": CHANGED})
    targets = _targets(exports, github)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    printed = tables.text(found, width, sort, shown)
    for path, name in targets.items():
        text = FORMATS[name](found)
        if path is None:
            printed = text
        else:
            _write(path, text)
    terminal.write(printed)


def judge(found: Comparison, *, fail_on: str | None, strict: bool, github: bool) -> int:
    """The exit code; says on stderr why it is not 0."""
    gate = _verdicts(fail_on, {})
    code = _code(found, gate, fail_on, strict)
    if github:
        _tell_github(found, gate, code == PASSED)
    return code


def _code(found: Comparison, gate: frozenset[str], fail_on: str | None, strict: bool) -> int:
    if not comparison.gate(found, gate):
        counts = ", ".join(f"{count} {word}" for word, count in found.counts.items() if word in gate)
        terminal.error(f"the gate failed: {counts} (--fail-on {fail_on})")
        return FAILED
    if not found.comparable:
        terminal.error("nothing was comparable: no row is in both, measured in the same way")
        return INCOMPARABLE
    if strict and (refused := len(found.refused)):
        rows = "row was" if refused == 1 else "rows were"
        terminal.error(f"{refused} {rows} not measured in the same way on both sides (--strict)")
        return INCOMPARABLE
    if not gate and os.environ.get("CI"):
        terminal.warn("the exit code says nothing about the verdicts; add --fail-on slower,missing,failed")
    return PASSED


def _share(text: str) -> float:
    """`5%` or `0.05`. Raises TableError."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise TableError(f"--margin {text!r} is not a share; write 2% or 0.02") from None


def _words(text: str | None) -> frozenset[str]:
    return frozenset(word.strip() for word in (text or "").split(",") if word.strip())


def _verdicts(text: str | None, groups: dict[str, frozenset[str]]) -> frozenset[str]:
    """Verdict words and groups of them, separated by commas. Raises TableError for a word that is none."""
    found: frozenset[str] = frozenset()
    for word in _words(text):
        if word not in groups and word not in WORDS:
            raise TableError(f"no verdict {word!r}; there are {', '.join((*groups, *WORDS))}")
        found |= groups.get(word, {word})
    return found


def _targets(exports: Sequence[str], github: bool) -> dict[Path | None, str]:
    """Formats by where they go, from `json=c.json`, or `json=-` for stdout. Raises TableError, also for two at one place."""
    found: dict[Path | None, str] = {}
    for text in exports:
        name, sign, path = text.partition("=")
        if not sign or not path or name not in FORMATS:
            raise TableError(f"--export {text!r}: write FORMAT=FILE; formats are {', '.join(FORMATS)}")
        target = None if path == "-" else Path(path)
        if target in found:
            raise TableError(f"--export {text!r}: {found[target]} goes there too; give each a place of its own")
        if target is None and github:
            raise TableError(f"--export {text!r}: --github writes to stdout as well; give the export a file")
        found[target] = name
    return found


def _write(path: Path, text: str, mode: str = "w") -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror}); choose another place") from None


def _tell_github(found: Comparison, gate: frozenset[str], passed: bool) -> None:
    """Annotations to stdout, where the runner reads them, and the files that it names in the environment."""
    terminal.write(actions.annotations(found, gate))
    for variable, text in (
        ("GITHUB_STEP_SUMMARY", actions.step_summary(found)),
        ("GITHUB_OUTPUT", actions.outputs(found, passed)),
    ):
        if path := os.environ.get(variable):
            _write(Path(path), text, "a")
