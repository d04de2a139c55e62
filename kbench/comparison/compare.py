"""Make a comparison: read two results files, pair and judge their rows, and find what else differs."""

from __future__ import annotations

from pathlib import Path

from kbench.analysis.files import read_file
from kbench.comparison.drift import drifts_by_device
from kbench.comparison.environment_differences import differences, unknown_names
from kbench.comparison.join import common_axes, ignore_axes, nothing_common, other_weights, pairs, sides_of
from kbench.comparison.judge import judge_pairs
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions
from kbench.errors import UsageError
from kbench.results.reader import parse_source, read_results
from kbench.results.row_filter import RowFilter

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
    labels, where = _unique_labels(labelled), RowFilter.parse(options.where)
    old, new = (read_file(label, path, where, expected=True) for label, (_, path) in zip(labels, labelled, strict=True))
    if where.terms and not (old.results.provider_rows or new.results.provider_rows):
        raise UsageError(where.nothing(read_results(old.path)))
    axes, ignored_axes = common_axes(old.results, new.results), ignore_axes(old.results, new.results)
    of_old, of_new = (sides_of(file.results, axes, options.metric) for file in (old, new))
    drifts = drifts_by_device(old.analysis, new.analysis, axes, options.vary)
    rows, geomean = judge_pairs(pairs(of_old, of_new), drifts, options)
    notes = [
        *ignored_axes,
        *unknown_names(options.vary, old, new),
        other_weights(old.label, of_old, new.label, of_new),
        *old.warnings,
        *new.warnings,
    ]
    return Comparison(
        old.label,
        new.label,
        options,
        tuple(rows),
        geomean,
        drifts,
        differences=tuple(differences(old, new, options.vary)),
        notes=tuple(dict.fromkeys(filter(None, notes))),
        nothing_common=nothing_common(old.label, of_old, new.label, of_new),
        places=new.environment.places,
    )


def _unique_labels(labelled: list[tuple[str, Path]]) -> list[str]:
    """The labels, or the paths of files without one. Raises UsageError when two are equal."""
    labels = [label or str(path) for label, path in labelled]
    if labels[0] == labels[1]:
        if any(label for label, _ in labelled):
            raise UsageError(f"two files have the label {labels[0]}; give each its own label: old=a.csv new=b.csv")
        return [labels[0], f"{labels[1]} (again)"]  # a file against itself
    return labels
