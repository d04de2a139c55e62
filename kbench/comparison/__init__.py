"""Results told apart: join the rows, judge each pair, say what else differs.

join -> drift -> change (stats) -> verdict, and environment beside them. The formats a comparison is written in are in
`kbench.comparison.formats`; none of the modules here knows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.analysis import Noise, analyse, rows_of
from kbench.comparison.change import Rules
from kbench.comparison.drift import Drift, drift
from kbench.comparison.environment_differences import Difference, differences, nobody_has
from kbench.comparison.gate import NO_GATE, Gate
from kbench.comparison.join import METRICS, Sides, common_axes, files, nothing_common, pairs, providers
from kbench.comparison.verdict import WORDS, Geomean, Verdict, differing, judge
from kbench.errors import UsageError
from kbench.results import environment_file, table
from kbench.results.row import PROVIDER
from kbench.results.row_filter import RowFilter
from kbench.text.suggest import unknown

__all__ = ["Comparison", "Gate", "compare"]

BY = ("file", "provider")


@dataclass(frozen=True, repr=False)
class Comparison:
    """The verdicts on one or more contenders against a baseline, and everything a reader needs to weigh them.

    baseline, contenders  labels of the sides: files, or the providers of one file
    rows                  a verdict per key and contender, sorted by key
    geomeans              one per contender
    drifts                how the machine moved between the baseline and a contender, where that is a question
    differences           what else is not the same for both
    notes                 what was assumed or left out
    source                the file whose providers are the sides, with `by="provider"`
    gate                  what the comparison has to pass; by default anything does. `passed` says whether it did
    nothing_common        one sentence, where no row of a contender is one of the baseline too
    places                by contender, where each provider is defined: `kernels/mine.py:12`, relative to where it was run
    """

    by: str
    baseline: str
    contenders: tuple[str, ...]
    rules: Rules
    rows: tuple[Verdict, ...]
    geomeans: tuple[Geomean, ...]
    drifts: dict[str, Drift]
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    gate: Gate = NO_GATE
    nothing_common: str = ""
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How often each verdict was given, in the order of WORDS; those never given are left out."""
        counts = Counter(row.word for row in self.rows)
        return {word: counts[word] for word in WORDS if counts[word]}

    @property
    def comparable(self) -> bool:
        """Whether the sides say anything about each other: false when no row is in both under equal conditions."""
        return any(row.old and row.new and row.word not in ("incomparable", "untimed") for row in self.rows)

    @property
    def passed(self) -> bool:
        """Whether the gate passed: something was comparable, and no row has a verdict in `fail_on`."""
        return self.gate.judge(self).passed

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each of `rows`, with the columns of `--export csv`: axes are Int64 or text, `ratio`, `ci_low`, `ci_high`,
        `q`, `old` and `new` float64 with NaN for what is not known, the numbers of sessions int64."""
        from kbench.comparison.formats import notebook

        return notebook.frame(self)

    def __repr__(self) -> str:
        from kbench.comparison.formats import notebook

        return notebook.line(self)

    def __str__(self) -> str:
        """What `kbench compare` prints."""
        from kbench.comparison.formats import terminal

        return terminal.text(self, 120)

    def _repr_html_(self) -> str:
        from kbench.comparison.formats import notebook

        return notebook.html(self)

    @property
    def refused(self) -> list[Verdict]:
        """The rows that have a time on both sides and were not measured in the same way."""
        return [
            row
            for row in self.rows
            if row.word == "incomparable" and row.old and row.new and row.old.readings and row.new.readings
            if differing(row.old, row.new, self.rules.vary)
        ]


def compare(
    *sources: Path | str,
    by: str = "file",
    baseline: str | None = None,
    where: str = "",
    metric: str = "ms",
    margin: float | None = None,
    vary: Collection[str] = (),
    fail_on: Collection[str] = (),
    strict: bool = False,
) -> Comparison:
    """Judge the rows of results files against those of the first, or of the one labelled `baseline`.

    A source is a path or `LABEL=path`. With `by="provider"` there is one file, and its providers are judged against the one
    named `baseline` (default: the config's), session by session and round by round. `margin` is the smallest change of
    interest, as a share (default: 2 %; of providers, what the noise allows); `vary` names what is meant to differ (`torch`,
    `driver`, `device`). `fail_on` and `strict` are the comparison's `gate`. Raises UsageError.
    """
    for option, value, known in (("by", by, BY), ("metric", metric, tuple(METRICS))):
        if value not in known:
            raise UsageError(f"--{option}: {unknown({'by': 'grouping'}.get(option, option), value, known)}")
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"a margin of {margin:.0%} cannot be; give a share such as 2% or 0.02")
    rules = Rules(vary=frozenset(vary), paired=by == "provider", metric=metric)
    if margin is not None:
        rules = replace(rules, margin=margin, asked=True)
    gate = Gate.of(fail_on, strict)
    labelled = [table.parse_source(source) for source in sources]
    frames = [table.read(path) for _, path in labelled]
    frames = _chosen(frames, RowFilter.parse(where))
    read = [environment_file.read(path) for _, path in labelled]
    warnings = [str(warning) for frame in frames for warning in frame.attrs["warnings"]]
    if by == "provider":
        judged = _of_providers(frames, read[0].environment.get("baseline"), baseline, rules, warnings)
        places = read[0].environment.get("places") or {}
        return replace(judged, gate=gate, places=dict.fromkeys(judged.contenders, places))
    warnings += [found.note for found in read if found.note]
    judged = _of_files(_unique(labelled), frames, [found.environment for found in read], baseline, rules, warnings)
    return replace(judged, gate=gate)


def _of_files(
    labels: list[str],
    frames: list[pd.DataFrame],
    environments: list[dict[str, Any]],
    baseline: str | None,
    rules: Rules,
    notes: list[str],
) -> Comparison:
    if len(labels) < 2:
        raise UsageError("one file has nothing to be compared with; name two, or use --by provider")
    first = _find(baseline or labels[0], labels, "file")
    labels.insert(0, labels.pop(first))
    frames.insert(0, frames.pop(first))
    environments.insert(0, environments.pop(first))
    axes = common_axes(frames)
    sides, more = files(frames, axes, rules.metric)
    drifts = {label: drift(frames[0], frame, axes) for label, frame in zip(labels[1:], frames[1:], strict=True)}
    contenders = dict(zip(labels[1:], sides[1:], strict=True))
    found = [
        difference
        for label, frame, data in zip(labels[1:], frames[1:], environments[1:], strict=True)
        for difference in differences(label, (frames[0], frame), (environments[0], data), rules.vary)
    ]
    more += [f"--vary {name}: no file says anything of it" for name in nobody_has(rules.vary, frames, environments)]
    apart = [told for label, new in contenders.items() if (told := nothing_common(labels[0], sides[0], label, new))]
    everything = len(apart) == len(contenders)
    judged = _judged("file", labels[0], sides[0], contenders, rules, drifts, found, [*more, *notes])
    places = [environment.get("places") or {} for environment in environments]
    judged = replace(judged, places=dict(zip(labels, places, strict=True)))
    if everything:
        return replace(judged, nothing_common="; ".join(apart))
    return replace(judged, notes=(*apart, *judged.notes))


def _of_providers(
    frames: list[pd.DataFrame], of_config: str | None, baseline: str | None, rules: Rules, notes: list[str]
) -> Comparison:
    if len(frames) != 1:
        raise UsageError(f"--by provider compares within one file, not {len(frames)}; name one")
    [frame] = frames
    sides = providers(frame, rules.metric)
    labels = list(sides)
    wanted = baseline or of_config
    if wanted is None:
        raise UsageError(f"{frame.attrs['path']}: no baseline; choose one with --baseline: {', '.join(labels)}")
    first = labels[_find(wanted, labels, "provider")]
    contenders = {label: sides[label] for label in labels if label != first}
    noise = analyse(rows_of(frame), of_config).noise
    drifts = dict.fromkeys(contenders, Drift(noise=noise.floor or 0.0))
    judged = _judged("provider", first, sides[first], contenders, rules, drifts, [], notes, noise)
    return replace(judged, source=frame.attrs["path"])


def _judged(
    by: str,
    baseline: str,
    old: Sides,
    contenders: dict[str, Sides],
    rules: Rules,
    drifts: dict[str, Drift],
    found: Sequence[Difference],
    notes: Sequence[str],
    noise: Noise | None = None,
) -> Comparison:
    rows, geomeans = judge(pairs(old, contenders), drifts, rules, noise)
    labels = tuple(contenders)
    unique = tuple(dict.fromkeys(notes))
    return Comparison(by, baseline, labels, rules, tuple(rows), tuple(geomeans), drifts, tuple(found), unique)


def _chosen(frames: list[pd.DataFrame], where: RowFilter) -> list[pd.DataFrame]:
    """The rows that were asked for. Raises UsageError when no file has any."""
    chosen = [where.select(frame) for frame in frames]
    if where.terms and all(frame[frame["role"] == PROVIDER].empty for frame in chosen):
        raise UsageError(where.nothing(frames[0]))
    return chosen


def _unique(labelled: list[tuple[str, Path]]) -> list[str]:
    """Labels as given, else the paths. Raises UsageError for one given twice."""
    labels = [label or str(path) for label, path in labelled]
    if repeated := [label for place, label in enumerate(labels) if label in labels[:place]]:
        if len(labels) == 2 and not any(label for label, _ in labelled):  # a file against itself
            return [labels[0], f"{labels[1]} (again)"]
        raise UsageError(f"{repeated[0]} is named twice; tell them apart as LABEL=FILE")
    return labels


def _find(wanted: str, labels: list[str], what: str) -> int:
    if wanted in labels:
        return labels.index(wanted)
    raise UsageError(f"--baseline: {unknown(what, wanted, labels)}")
