"""From results files to the decision, and to the Python file and the map that hold it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

import numpy as np

from kbench.analysis.files import ResultsFile, Source, load_sources
from kbench.dispatching.evidence import Evidence, Point, evidence_of
from kbench.dispatching.grow import Decision, grow
from kbench.files import replace
from kbench.plotting import machine_line, method_line
from kbench.plotting.maps import ChoicePanel, choice_map
from kbench.plotting.names import title_of
from kbench.results.stamps import now
from kbench.text.printable import printable
from kbench.version import __version__

MOST_MAPS = 9
CELLS = 120
"""Along each side of a map."""

BEYOND = 1.25
"""A map reaches beyond the measured sizes by this factor."""

SPLITS = 5
"""How often all shapes are split anew. One split alone may be a lucky one."""


@dataclass(frozen=True)
class Loss:
    """What a decision loses at a case, as a share of the best time. It is infinite where the chosen provider may not be."""

    point: Point
    provider: str
    regret: float


@dataclass(frozen=True)
class Dispatch:
    """A decision with its evidence.

    measured      what it loses at each measured case; `held_out` the same for shapes that were held out
    report_lines  the cases and the providers that were left out, and the regret
    header        what the written files say about themselves
    warnings      what could not be read of the files
    """

    decision: Decision
    evidence: Evidence
    measured: list[Loss]
    held_out: list[Loss]
    report_lines: list[str]
    header: list[str]
    warnings: list[str]

    @cached_property
    def panels(self) -> Sequence[ChoicePanel]:
        """The panels of the map: one for each combination of the arguments that are not x or y, at most MOST_MAPS. x and y are
        the sizes with the most values. There are no panels where no size varies, or where those that do have a 0."""
        evidence = self.evidence
        counts = {name: len(set(evidence.values(name))) for name in evidence.numbers}
        varying = [name for name in counts if counts[name] > 1 and min(evidence.values(name)) > 0]
        chosen = sorted(sorted(varying, key=lambda name: -counts[name])[:2], key=varying.index)
        if not chosen:
            return []
        x, y = chosen[-1], chosen[0] if len(chosen) > 1 else ""
        others = [argument.name for argument in evidence.arguments if argument.name not in (x, y)]
        named = [name for name in others if len({point[name] for point in evidence.points}) > 1]
        groups: dict[tuple[str, ...], list[int]] = {}
        for case, point in enumerate(evidence.points):
            groups.setdefault(tuple(str(point[name]) for name in others), []).append(case)
        xs, ys = _mesh(evidence.values(x)), _mesh(evidence.values(y)) if y else [1.0]
        panels = []
        for _, cases in sorted(groups.items())[:MOST_MAPS]:
            point = evidence.points[cases[0]]
            title = title_of({name: point[name] for name in named})
            rows = []
            for b in ys:
                places = [{**point, x: a, y: b} if y else {**point, x: a} for a in xs]
                rows.append(list(map(self.decision.choose, places)))
            dots = []
            for case in cases:
                at = evidence.values(x)[case], evidence.values(y)[case] if y else 1.0
                dots.append((*at, _best(self.decision, evidence, case)))
            panels.append(ChoicePanel(title, x, y, xs, ys, rows, dots))
        return panels

    def write(self, path: Path) -> list[Path]:
        """Write the Python file and, if a size varies, the map beside it. Returns their paths. Raises ResultsError."""
        contents: dict[Path, str | bytes] = {path: self.decision.source(self.header)}
        if self.panels:
            title = f"{self.evidence.operator}: the provider by shape"
            contents[path.with_suffix(".png")] = choice_map(self.panels, title, "\n".join(self.header[1:]))
        for place, content in contents.items():
            replace(place, content)
        return list(contents)


def dispatch(
    files: Sequence[Source], *, limit: int = 3, margin: float = 0.03, holdout: float = 0.25, where: str = ""
) -> Dispatch:
    """The decision for results files, of which `where` chooses rows. It uses at most `limit` providers, and a regret of the
    share `margin` is good enough. `holdout` is the share of the shapes that is held out at a time."""
    sources = load_sources(files, where)
    evidence = evidence_of(sources)
    decision = grow(evidence, limit, margin)
    measured = _losses(decision, evidence)
    held_out = _held_out_losses(evidence, limit, margin, holdout) if holdout else []
    report = []
    if evidence.omitted:
        count, total = len(evidence.omitted), len(evidence.omitted) + len(evidence.points)
        why = f"because no provider has a trusted time there, for example {evidence.omitted[0]}"
        report.append(f"left out: {count} of {total} cases, {why}")
    for name, gap in evidence.gaps.items():
        if name not in decision.providers and _gain(name, evidence, measured) > margin:
            why = f"because it has no trusted time in {gap}"
            report.append(f"never chosen: {name}, although it is the fastest somewhere, {why}")
    report.append(_regret_line(measured, held_out=False))
    if held_out:
        report.append(_regret_line(held_out, held_out=True))
    elif holdout:
        report.append("no regret at held-out cases: the results have a single shape, and the test needs two")
    warnings = [warning for source in sources for warning in source.warnings]
    head = _header(decision, evidence, sources, report)
    return Dispatch(decision, evidence, measured, held_out, report, head, warnings)


def _gain(name: str, evidence: Evidence, losses: Sequence[Loss]) -> float:
    """How much faster a provider is than the chosen ones, as a share, in the case where that is most."""
    regrets = evidence.measured[:, evidence.providers.index(name)]
    return max(float((1 + loss.regret) / (1 + regret) - 1) for loss, regret in zip(losses, regrets, strict=True))


def _header(decision: Decision, evidence: Evidence, sources: Sequence[ResultsFile], report: Sequence[str]) -> list[str]:
    """What the written files say about their origin and their limits."""
    measured = []
    for name in evidence.numbers:
        low, high = min(evidence.values(name)), max(evidence.values(name))
        measured.append(f"{name} from {low} to {high}" if low < high else f"{name}={low}")
    measured += [f"{name}: {', '.join(map(str, words))}" for name, words in decision.words.items()]
    measured += [f"only {name}={value}" for name, value in evidence.fixed.items()]
    lines = [
        f"The provider of {evidence.operator} for a shape. kbench {__version__} made this file at {now()}; do not edit it.",
        *(f"From {source.path}: {machine_line(source)} · {method_line([source])}" for source in sources),
        f"Measured: {'; '.join(measured)}.",
        *(f"{line[0].upper()}{line[1:]}." for line in report),
    ]
    if len(decision.providers) == 1:
        lines.append(f"{decision.general} has a trusted time in every measured case. `choose` always returns it.")
    else:
        lines += [
            f"{decision.general} has a trusted time in every measured case. "
            "It is also returned if the dtype, or another argument that is text, has a value that was not measured.",
            "Sizes that were not measured follow the thresholds, which lie between measured sizes. Where a size is outside the "
            f"bounds of the chosen provider (low <= N <= high), `choose` returns {decision.general}.",
        ]
    return [printable(line) for line in lines]


def _losses(decision: Decision, evidence: Evidence, cases: Iterable[int] | None = None) -> list[Loss]:
    """What a decision loses at each of some cases, by default all."""
    losses = []
    for case in range(len(evidence.points)) if cases is None else cases:
        chosen = decision.choose(evidence.points[case])
        regret = float(evidence.measured[case, evidence.providers.index(chosen)])
        losses.append(Loss(evidence.points[case], chosen, regret))
    return losses


def _held_out_losses(evidence: Evidence, limit: int, margin: float, share: float) -> list[Loss]:
    """What trees lose at cases that they were grown without. Empty if there are fewer than two shapes.

    Every shape is held out once in each split, with all its dtypes and other words: no case of the same shape gives it away.
    The splits are the same in every run.
    """
    shape_of = [evidence.shape(case) for case in range(len(evidence.points))]
    shapes = sorted(set(shape_of))
    if len(shapes) < 2:
        return []
    folds = min(len(shapes), max(2, round(1 / share)))
    order = random.Random(0)
    losses: list[Loss] = []
    for _ in range(SPLITS):
        order.shuffle(shapes)
        for fold in range(folds):
            out = set(shapes[fold::folds])
            evidence_inside = evidence.part([case for case, shape in enumerate(shape_of) if shape not in out])
            left_out = [case for case, shape in enumerate(shape_of) if shape in out]
            losses += _losses(grow(evidence_inside, limit, margin), evidence, left_out)
    return losses


def _regret_line(losses: list[Loss], *, held_out: bool) -> str:
    """The mean and the worst regret, and where the worst is."""
    where = f"held-out cases ({SPLITS} splits)" if held_out else "measured cases"
    worst = max(losses, key=lambda loss: loss.regret)
    at = " ".join(str(value) if name == "dtype" else f"{name}={value}" for name, value in worst.point.items())
    if forbidden := sum(math.isinf(loss.regret) for loss in losses):
        choices = "choices (each case once per split)" if held_out else "cases"
        return (
            f"regret at {where}: infinite, because in {forbidden} of {len(losses)} {choices} the chosen provider has no "
            f"time that can be trusted, for example {worst.provider} at {at}"
        )
    mean = fmean(loss.regret for loss in losses)
    return f"regret at {where}: mean {100 * mean:.2f} %, worst {100 * worst.regret:.2f} % ({worst.provider} at {at})"


def _best(decision: Decision, evidence: Evidence, case: int) -> str:
    """The best provider of a case: the chosen one, unless another is shown to be faster."""
    chosen = decision.choose(evidence.points[case])
    if evidence.decided[case, evidence.providers.index(chosen)] > 0:
        return evidence.providers[int(np.argmin(evidence.measured[case]))]
    return chosen


def _mesh(values: Sequence[float]) -> list[float]:
    """Places at equal factors, from below the smallest value to above the largest."""
    return list(np.geomspace(min(values) / BEYOND, max(values) * BEYOND, CELLS))
