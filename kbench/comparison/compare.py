"""Make a comparison: read results files, pair and judge their rows, and find what else differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbench.analysis import Analysis, analyse
from kbench.comparison.drift import Drift, drift
from kbench.comparison.environment_differences import EnvironmentDifference, differences, unknown_names
from kbench.comparison.join import Sides, common_axes, nothing_common, pairs, sides_of_files
from kbench.comparison.judge import judge_pairs
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions, Rules
from kbench.errors import UsageError
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import Results, read_results
from kbench.results.row_filter import RowFilter
from kbench.results.sources import parse_source
from kbench.text.words import plural

DEFAULT_OPTIONS = CompareOptions()


def compare_results(*sources: Path | str, options: CompareOptions = DEFAULT_OPTIONS) -> Comparison:
    """Compare two results files, the old one first. A source is a path or `LABEL=path`.

    Raises UsageError and ResultsError.
    """
    if len(sources) != 2:
        raise UsageError(
            f"a comparison has two files, an old and a new one, but got {len(sources)}; give OLD.csv NEW.csv"
        )
    rules, gate = options.rules, options.gate
    labelled = [parse_source(source) for source in sources]
    files = _select([read_results(path) for _, path in labelled], RowFilter.parse(options.where))
    read = [read_environment(path, expected=True) for _, path in labelled]
    notes = [warning for results in files for warning in results.warnings]
    environments = [environment for environment, _ in read]
    notes += [note for _, note in read if note]
    return replace(_compare_files(_unique_labels(labelled), files, environments, rules, notes), gate=gate)


def _compare_files(
    labels: list[str],
    files: list[Results],
    environments: list[Environment],
    rules: Rules,
    notes: list[str],
) -> Comparison:
    axes = common_axes(files)
    sides, more = sides_of_files(files, axes, rules.metric)
    analyses = [analyse(own.rows, found.baseline) for own, found in zip(files, environments, strict=True)]
    drifts = {
        label: _drift_between(analyses[0], new, axes) for label, new in zip(labels[1:], analyses[1:], strict=True)
    }
    contenders = dict(zip(labels[1:], sides[1:], strict=True))
    found = [
        difference
        for label, own, data in zip(labels[1:], files[1:], environments[1:], strict=True)
        for difference in differences(label, (files[0], own), (environments[0], data), rules.vary)
    ]
    more += unknown_names(rules.vary, files, environments)
    more += [told for label, new in contenders.items() if (told := _other_weights(labels[0], sides[0], label, new))]
    apart = [told for label, new in contenders.items() if (told := nothing_common(labels[0], sides[0], label, new))]
    everything = len(apart) == len(contenders)
    judged = _judge_sides(labels[0], sides[0], contenders, rules, drifts, found, [*more, *notes])
    places = [environment.places for environment in environments]
    judged = replace(judged, places=dict(zip(labels, places, strict=True)))
    if everything:
        return replace(judged, nothing_common="; ".join(apart))
    return replace(judged, notes=(*apart, *judged.notes))


def _drift_between(old: Analysis, new: Analysis, axes: Sequence[str]) -> Drift:
    noise = max(old.noise.floor or 0.0, new.noise.floor or 0.0)
    return drift(old.rows, new.rows, axes, noise, old.baseline if old.baseline == new.baseline else None)


def _other_weights(baseline: str, old: Sides, contender: str, new: Sides) -> str:
    """A note on weights that differ between two files; "" if none do."""
    other = sum(old[key].weight != new[key].weight for key in old.keys() & new.keys())
    what = f"the weights of {plural(other, 'row')} differ between {baseline} and {contender}"
    used = f"the geometric mean uses the weights of {baseline}, or of {contender} where {baseline} has none"
    return f"{what}; {used}" if other else ""


def _judge_sides(
    baseline: str,
    old: Sides,
    contenders: dict[str, Sides],
    rules: Rules,
    drifts: dict[str, Drift],
    found: Sequence[EnvironmentDifference],
    notes: Sequence[str],
) -> Comparison:
    rows, geomeans = judge_pairs(pairs(old, contenders), drifts, rules)
    labels = tuple(contenders)
    unique = tuple(dict.fromkeys(notes))
    return Comparison(baseline, labels, rules, tuple(rows), tuple(geomeans), drifts, tuple(found), unique)


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
