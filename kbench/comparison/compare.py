"""Make a comparison: read two results files, join their rows, judge them, and find what else differs.

Rows are joined by operator, case and provider, never by their position in the file.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbench.analysis.files import ResultsFile, Source, check_labels, read_files
from kbench.comparison.drift import drifts_by_device
from kbench.comparison.environment import differences, unknown_names
from kbench.comparison.judge import judge_rows
from kbench.comparison.model import CompareOptions, Comparison, JudgedRow, Key, Side
from kbench.errors import ResultsError, UsageError
from kbench.results.reader import Results
from kbench.results.row import CONDITION_COLUMNS, Row
from kbench.text.words import list_words, plural

DEFAULT_OPTIONS = CompareOptions()


def compare_results(*sources: Source, options: CompareOptions = DEFAULT_OPTIONS) -> Comparison:
    """Compare two results files, the old one first. The label of a file without one is its path.

    Raises UsageError and ResultsError.
    """
    if len(sources) != 2:
        raise UsageError(
            f"a comparison has two files, an old and a new one, but got {len(sources)}; give OLD.csv NEW.csv"
        )
    old, new = files = read_files(sources, options.where)
    check_labels(files)
    labels = old.label or str(old.path), new.label or str(new.path)
    axes, ignored_axes = _axes_in_common(old, new)
    of_old, of_new = (_sides(file.results, axes, options.metric) for file in files)
    keys = sorted({*of_old, *of_new}, key=lambda key: key.order)
    if not keys:
        raise ResultsError(
            f"{old.path} and {new.path}: neither file has a row of a provider, so there is nothing to compare"
        )
    drifts = drifts_by_device(old.analysis, new.analysis, axes, options.vary)
    sides = {key: (of_old.get(key), of_new.get(key)) for key in keys}
    rows, geomean = judge_rows(sides, drifts, options)
    notes = [
        *ignored_axes,
        *unknown_names(options.vary, *files),
        _other_weights(*labels, rows),
        *old.warnings,
        *new.warnings,
    ]
    return Comparison(
        *labels,
        options,
        tuple(rows),
        geomean,
        drifts,
        differences=tuple(differences(old, new, axes, options.vary)),
        notes=tuple(dict.fromkeys(filter(None, notes))),
        places=new.environment.places,
    )


def _axes_in_common(old: ResultsFile, new: ResultsFile) -> tuple[list[str], list[str]]:
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
    common = [axis for axis in old.axes if axis in new.axes]
    if any(len({row.device for row in file.rows} - {""}) > 1 for file in (old, new)):
        common.append("device")
    return common, notes


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


def _other_weights(old: str, new: str, rows: Sequence[JudgedRow]) -> str:
    """A note on weights that differ between two files; "" if none do."""
    other = sum(row.old.weight != row.new.weight for row in rows if row.old and row.new)
    message = f"the weights of {plural(other, 'row')} differ between {old} and {new}"
    return f"{message}; the geometric mean uses the weights of {old}, or of {new} where {old} has none" if other else ""
