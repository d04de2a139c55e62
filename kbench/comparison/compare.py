"""Make a comparison: read two results files, pair and judge their rows, and find what else differs."""

from __future__ import annotations

from pathlib import Path

from kbench.analysis import analyse
from kbench.comparison.drift import drifts_by_device
from kbench.comparison.environment_differences import differences, unknown_names
from kbench.comparison.join import common_axes, ignore_axes, nothing_common, other_weights, pairs, sides_of
from kbench.comparison.judge import judge_pairs
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions
from kbench.errors import UsageError
from kbench.results.environment import read_environment
from kbench.results.reader import Results, read_results
from kbench.results.row_filter import RowFilter
from kbench.results.sources import parse_source

DEFAULT_OPTIONS = CompareOptions()


def compare_results(*sources: Path | str, options: CompareOptions = DEFAULT_OPTIONS) -> Comparison:
    """Compare two results files, the old one first. A source is a path or `LABEL=path`.

    Raises UsageError and ResultsError.
    """
    if len(sources) != 2:
        raise UsageError(
            f"a comparison has two files, an old and a new one, but got {len(sources)}; give OLD.csv NEW.csv"
        )
    labelled = [parse_source(source) for source in sources]
    files = _select([read_results(path) for _, path in labelled], RowFilter.parse(options.where))
    environments, environment_notes = [], []
    for _, path in labelled:
        environment, note = read_environment(path, expected=True)
        environments.append(environment)
        environment_notes.append(note)
    old_label, new_label = _unique_labels(labelled)
    axes = common_axes(files)
    ignored_axes = ignore_axes(files)
    old, new = (sides_of(results, axes, options.metric) for results in files)
    of_old, of_new = (
        analyse(results.rows, environment.baseline) for results, environment in zip(files, environments, strict=True)
    )
    drifts = drifts_by_device(of_old, of_new, axes)
    rows, geomean = judge_pairs(pairs(old, new), drifts, options)
    notes = [
        *ignored_axes,
        *unknown_names(options.vary, files, environments),
        other_weights(old_label, old, new_label, new),
        *(warning for results in files for warning in results.warnings),
        *environment_notes,
    ]
    return Comparison(
        old_label,
        new_label,
        options,
        tuple(rows),
        geomean,
        drifts,
        differences=tuple(differences(files, environments, options.vary)),
        notes=tuple(dict.fromkeys(filter(None, notes))),
        nothing_common=nothing_common(old_label, old, new_label, new),
        places=environments[1].places,
    )


def _select(files: list[Results], where: RowFilter) -> list[Results]:
    """The rows that the filter selects. Raises UsageError when it selects no provider in any file."""
    chosen = [where.select(results) for results in files]
    if where.terms and not any(results.provider_rows for results in chosen):
        raise UsageError(where.nothing(files[0]))
    return chosen


def _unique_labels(labelled: list[tuple[str, Path]]) -> list[str]:
    """The labels, or the paths of files without one. Raises UsageError when two are equal."""
    labels = [label or str(path) for label, path in labelled]
    if labels[0] == labels[1]:
        if any(label for label, _ in labelled):
            raise UsageError(f"two files have the label {labels[0]}; give each its own label: old=a.csv new=b.csv")
        return [labels[0], f"{labels[1]} (again)"]  # a file against itself
    return labels
