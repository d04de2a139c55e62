"""Make a comparison: read two results files, join their rows, judge them, and find what else differs.

Rows are joined by operator, case and provider, never by their position in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbench.analysis import analyse
from kbench.comparison.drift import drifts_by_device
from kbench.comparison.environment import differences, unknown_names
from kbench.comparison.judge import judge_pairs
from kbench.comparison.model import CompareOptions, Comparison, Key, Pair, Side, several_devices
from kbench.errors import ResultsError, UsageError
from kbench.results.environment import read_environment
from kbench.results.reader import Results, parse_source, read_results
from kbench.results.row import CONDITION_COLUMNS, Row
from kbench.results.row_filter import RowFilter
from kbench.text.words import list_words, plural

DEFAULT_OPTIONS = CompareOptions()


def compare_results(*sources: Path | str, options: CompareOptions = DEFAULT_OPTIONS) -> Comparison:
    """Compare two results files, the old one first. A source is a path or `LABEL=path`.

    Raises UsageError and ResultsError.
    """
    labels, paths = _labels_and_paths(sources)
    old, new = _read(paths, RowFilter.parse(options.where))
    (old_environment, old_note), (new_environment, new_note) = (read_environment(path, expected=True) for path in paths)
    axes, ignored_axes = _axes_in_common(old, new)
    of_old, of_new = (_sides(results, axes, options.metric) for results in (old, new))
    keys = sorted({*of_old, *of_new}, key=lambda key: key.order)
    pairs = [Pair(key, of_old.get(key), of_new.get(key)) for key in keys]
    if not pairs:
        raise ResultsError(
            f"{paths[0]} and {paths[1]}: neither file has a row of a provider, so there is nothing to compare"
        )
    drifts = drifts_by_device(
        analyse(old.rows, old_environment.baseline), analyse(new.rows, new_environment.baseline), axes, options.vary
    )
    rows, geomean = judge_pairs(pairs, drifts, options)
    files = (old, old_environment), (new, new_environment)
    notes = [
        *ignored_axes,
        *unknown_names(options.vary, *files),
        _other_weights(*labels, pairs),
        *old.warnings,
        old_note,
        *new.warnings,
        new_note,
    ]
    return Comparison(
        *labels,
        options,
        tuple(rows),
        geomean,
        drifts,
        differences=tuple(differences(*files, options.vary)),
        notes=tuple(dict.fromkeys(filter(None, notes))),
        places=new_environment.places,
    )


def _labels_and_paths(sources: Sequence[Path | str]) -> tuple[tuple[str, str], list[Path]]:
    """The labels of two files, and their paths. A file without a label has its path for one."""
    if len(sources) != 2:
        raise UsageError(
            f"a comparison has two files, an old and a new one, but got {len(sources)}; give OLD.csv NEW.csv"
        )
    (old, old_path), (new, new_path) = map(parse_source, sources)
    if old and old == new:
        raise UsageError(f"two files have the label {old}; give each its own label: old=a.csv new=b.csv")
    return (old or str(old_path), new or str(new_path)), [old_path, new_path]


def _read(paths: Sequence[Path], where: RowFilter) -> list[Results]:
    """The rows to compare of each file. Raises UsageError if no file has any."""
    files = [read_results(path) for path in paths]
    chosen = [where.select(results) for results in files]
    if where.terms and not any(results.provider_rows for results in chosen):
        raise UsageError(where.nothing(files[0]))
    return chosen


# ---- how rows are joined


def _axes_in_common(old: Results, new: Results) -> tuple[list[str], list[str]]:
    """The columns that identify a case in both files, and notes on the axes that only one of them has.

    `device` is one of these columns if a file has rows of several devices. Raises UsageError when the rows cannot be matched
    without an axis, because it has several values.
    """
    notes = []
    for having, lacking in ((old, new), (new, old)):
        for axis in (axis for axis in having.axes if axis not in lacking.axes):
            values = list(dict.fromkeys(row.case.axes[axis] for row in having.rows))
            if len(values) > 1:
                raise UsageError(
                    f"{having.path}: this file has several values of the axis {axis}, but {lacking.path} has no such axis, so "
                    f"their rows cannot be matched; choose one with --where {axis}={values[0]}"
                )
            name = "=".join(map(str, [axis, *values]))
            notes.append(f"the axis {name} was ignored, because {lacking.path} has no such axis")
    devices = ["device"] if several_devices(old) or several_devices(new) else []
    return [*(axis for axis in old.axes if axis in new.axes), *devices], notes


def _sides(results: Results, axes: Sequence[str], metric: str) -> dict[Key, Side]:
    """The sides of a file. `axes` identify a case. Raises ResultsError when a key has the same session twice."""
    rows_of_keys: dict[Key, dict[int, Row]] = {}
    for row in results.provider_rows:
        key = Key.of(row, axes)
        sessions = rows_of_keys.setdefault(key, {})
        if row.session in sessions:
            # They were measured in two ways: read_results refuses a row that a session has twice.
            other = sessions[row.session]
            first, line = (results.lines[results.rows.index(repeated)] for repeated in (other, row))
            differ = [name for name in CONDITION_COLUMNS if getattr(row, name) != getattr(other, name)]
            raise ResultsError(
                f"{results.path}:{line}: {key.label} session {row.session} is also on line {first}, with another "
                f"{list_words(differ)}; compare one of them, for example with --where {differ[0]}={getattr(other, differ[0])}"
            )
        sessions[row.session] = row
    return {
        key: Side.of([sessions[number] for number in sorted(sessions)], metric)
        for key, sessions in rows_of_keys.items()
    }


def _other_weights(old: str, new: str, pairs: Sequence[Pair]) -> str:
    """A note on weights that differ between two files; "" if none do."""
    other = sum(pair.old.weight != pair.new.weight for pair in pairs if pair.old and pair.new)
    message = f"the weights of {plural(other, 'row')} differ between {old} and {new}"
    return f"{message}; the geometric mean uses the weights of {old}, or of {new} where {old} has none" if other else ""
