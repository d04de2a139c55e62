"""Make a comparison: read results files, pair and judge their rows, and find what else differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.analysis import Analysis, Noise, analyse, rows_of
from kbench.comparison.drift import Drift, drift
from kbench.comparison.environment_differences import EnvironmentDifference, differences, unknown_names
from kbench.comparison.join import Sides, common_axes, files, nothing_common, pairs, providers
from kbench.comparison.judge import judge_pairs
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions, Rules
from kbench.errors import UsageError
from kbench.results import environment_file, table
from kbench.results.row_filter import RowFilter
from kbench.results.vocabulary import Role
from kbench.text.suggest import unknown

DEFAULT_OPTIONS = CompareOptions()


def compare_results(*sources: Path | str, options: CompareOptions = DEFAULT_OPTIONS) -> Comparison:
    """Compare results files with the first of them, or with the one labelled `options.baseline`.

    A source is a path or `LABEL=path`. With `by="provider"` there is one file, and its providers are compared with the
    baseline provider, session by session and round by round. Raises UsageError and ResultsError.
    """
    rules, gate = options.rules, options.gate
    labelled = [table.parse_source(source) for source in sources]
    frames = [table.read_results(path) for _, path in labelled]
    frames = _select(frames, RowFilter.parse(options.where))
    read = [environment_file.read_environment(path) for _, path in labelled]
    notes = [str(warning) for frame in frames for warning in frame.attrs["warnings"]]
    if options.by == "provider":
        of_config = read[0].environment.get("baseline")
        compared = _compare_providers(frames, of_config, options.baseline, rules, notes)
        places = read[0].environment.get("places") or {}
        return replace(compared, gate=gate, places=dict.fromkeys(compared.contenders, places))
    notes += [found.note for found in read if found.note]
    environments = [found.environment for found in read]
    return replace(
        _compare_files(_unique_labels(labelled), frames, environments, options.baseline, rules, notes), gate=gate
    )


def _compare_files(
    labels: list[str],
    frames: list[pd.DataFrame],
    environments: list[dict[str, Any]],
    baseline: str | None,
    rules: Rules,
    notes: list[str],
) -> Comparison:
    if len(labels) < 2:
        raise UsageError("only one file was given; give two files, or compare its providers with --by provider")
    first = _find(baseline or labels[0], labels, "file")
    labels.insert(0, labels.pop(first))
    frames.insert(0, frames.pop(first))
    environments.insert(0, environments.pop(first))
    axes = common_axes(frames)
    rows = [rows_of(frame) for frame in frames]
    sides, more = files(frames, rows, axes, rules.metric)
    analyses = [analyse(own, found.get("baseline")) for own, found in zip(rows, environments, strict=True)]
    drifts = {
        label: _drift_between(analyses[0], new, axes) for label, new in zip(labels[1:], analyses[1:], strict=True)
    }
    contenders = dict(zip(labels[1:], sides[1:], strict=True))
    found = [
        difference
        for label, frame, data in zip(labels[1:], frames[1:], environments[1:], strict=True)
        for difference in differences(label, (frames[0], frame), (environments[0], data), rules.vary)
    ]
    more += unknown_names(rules.vary, frames, environments)
    more += [told for label, new in contenders.items() if (told := _other_weights(labels[0], sides[0], label, new))]
    apart = [told for label, new in contenders.items() if (told := nothing_common(labels[0], sides[0], label, new))]
    everything = len(apart) == len(contenders)
    judged = _judge_sides("file", labels[0], sides[0], contenders, rules, drifts, found, [*more, *notes])
    places = [environment.get("places") or {} for environment in environments]
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
    what = f"the weights of {other} row{'s' * (other != 1)} differ between {baseline} and {contender}"
    used = f"the geometric mean uses the weights of {baseline}, or of {contender} where {baseline} has none"
    return f"{what}; {used}" if other else ""


def _compare_providers(
    frames: list[pd.DataFrame], of_config: str | None, baseline: str | None, rules: Rules, notes: list[str]
) -> Comparison:
    if len(frames) != 1:
        raise UsageError(f"--by provider compares the providers of one file; {len(frames)} files were given")
    [frame] = frames
    rows = rows_of(frame)
    sides = providers(frame, rows, rules.metric)
    labels = list(sides)
    found = analyse(rows, of_config)
    wanted = baseline or of_config or found.baseline
    if wanted is None:
        raise UsageError(
            f"{frame.attrs['path']}: there is no baseline; choose one with --baseline: {', '.join(labels)}"
        )
    first = labels[_find(wanted, labels, "provider")]
    contenders = {label: sides[label] for label in labels if label != first}
    drifts = dict.fromkeys(contenders, Drift(noise=found.noise.floor or 0.0))
    judged = _judge_sides("provider", first, sides[first], contenders, rules, drifts, [], notes, found.noise)
    path = frame.attrs["path"]
    alone = "" if contenders else f"{path} has no other provider that could be compared with the baseline {first}"
    return replace(judged, source=path, nothing_common=alone)


def _judge_sides(
    by: str,
    baseline: str,
    old: Sides,
    contenders: dict[str, Sides],
    rules: Rules,
    drifts: dict[str, Drift],
    found: Sequence[EnvironmentDifference],
    notes: Sequence[str],
    noise: Noise | None = None,
) -> Comparison:
    rows, geomeans = judge_pairs(pairs(old, contenders), drifts, rules, noise)
    labels = tuple(contenders)
    unique = tuple(dict.fromkeys(notes))
    return Comparison(by, baseline, labels, rules, tuple(rows), tuple(geomeans), drifts, tuple(found), unique)


def _select(frames: list[pd.DataFrame], where: RowFilter) -> list[pd.DataFrame]:
    """The rows that the filter selects. Raises UsageError when it selects no provider in any file."""
    chosen = [where.select(frame) for frame in frames]
    if where.terms and all(frame[frame["role"] == Role.PROVIDER].empty for frame in chosen):
        raise UsageError(where.nothing(frames[0]))
    return chosen


def _unique_labels(labelled: list[tuple[str, Path]]) -> list[str]:
    """The labels, or the paths of files without one. Raises UsageError when two are equal."""
    labels = [label or str(path) for label, path in labelled]
    if repeated := [label for place, label in enumerate(labels) if label in labels[:place]]:
        if len(labels) == 2 and not any(label for label, _ in labelled):  # a file against itself
            return [labels[0], f"{labels[1]} (again)"]
        if any(label == repeated[0] for label, _ in labelled):
            raise UsageError(f"two files have the label {repeated[0]}; give each its own label: old=a.csv new=b.csv")
        raise UsageError(f"{repeated[0]} is given twice; give each file a label: LABEL=FILE")
    return labels


def _find(wanted: str, labels: list[str], what: str) -> int:
    if wanted in labels:
        return labels.index(wanted)
    raise UsageError(f"--baseline: {unknown(what, wanted, labels)}")
