"""From results files to the decision and the files that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kbench.analysis.files import load_sources
from kbench.dispatching.evidence import Evidence, evidence_of
from kbench.dispatching.grow import grow
from kbench.dispatching.holdout import Regret, held_out, measured_regret
from kbench.dispatching.json_document import json_text
from kbench.dispatching.lines import header, omitted_lines, passed_over_lines, regret_line
from kbench.dispatching.map_panels import map_panels
from kbench.dispatching.python_source import python_source
from kbench.dispatching.tree import Decision
from kbench.errors import UsageError
from kbench.files import replace
from kbench.plotting.choice_map import ChoicePanel
from kbench.results.stamps import now


@dataclass(frozen=True)
class DispatchOptions:
    """limit    the most providers that are used
    margin   the largest regret that is good enough, as a share
    holdout  the share of the shapes that is held out at a time; 0: none are"""

    limit: int = 3
    margin: float = 0.03
    holdout: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise UsageError(
                f"--margin {self.margin:g}: must be a share that is at least 0 and less than 1; write 3% or 0.03"
            )
        if not 0 <= self.holdout <= 0.5:
            raise UsageError(
                f"--holdout {self.holdout:g}: must be a share from 0 to 0.5; write 25% or 0.25, or 0 for none"
            )


@dataclass(frozen=True)
class Dispatch:
    """A decision with its evidence.

    held_out      None if no shapes were held out
    report_lines  the cases and the providers that were left out, and the regret
    warnings      what could not be read of the files
    """

    decision: Decision
    evidence: Evidence
    measured: Regret
    held_out: Regret | None
    report_lines: list[str]
    header: list[str]
    warnings: list[str]

    @cached_property
    def panels(self) -> Sequence[ChoicePanel]:
        """The panels of the map; none where no size varies, or where those that do have a 0."""
        return map_panels(self.decision, self.evidence)

    def write(self, path: Path) -> list[Path]:
        """Write the Python file, the JSON and, if a size varies, the map beside it. Returns their paths.

        Raises ResultsError if a file cannot be written."""
        regrets = {"measured": self.measured, "held_out": self.held_out}
        contents: dict[Path, str | bytes] = {
            path: python_source(self.decision, self.evidence, self.header),
            path.with_suffix(".json"): json_text(self.decision, self.evidence, self.header, regrets),
        }
        if self.panels:
            from kbench.plotting.choice_map import choice_map

            title = f"{self.evidence.operator}: the provider by shape"
            contents[path.with_suffix(".png")] = choice_map(self.panels, title, "\n".join(self.header[1:]))
        for place, content in contents.items():
            replace(place, content)
        return list(contents)


def dispatch(files: Sequence[Path | str], options: DispatchOptions, where: str = "") -> Dispatch:
    """The decision for results files, each given as `path` or `LABEL=path`. `where` chooses rows.

    Raises UsageError and ResultsError as `load_sources`, `evidence_of` and `grow` do.
    """
    sources = load_sources(files, where)
    evidence = evidence_of(sources)
    decision = grow(evidence, options.limit, options.margin)
    measured = measured_regret(decision, evidence)
    held = held_out(evidence, options.limit, options.margin, options.holdout) if options.holdout else None
    report = [
        *omitted_lines(evidence),
        *passed_over_lines(decision, evidence, options.margin),
        regret_line(measured, held_out=False),
    ]
    if held:
        report.append(regret_line(held, held_out=True))
    elif options.holdout:
        report.append("no regret at held-out cases: the results have a single shape, and the test needs two")
    warnings = [warning for source in sources for warning in source.warnings]
    head = header(decision, evidence, sources, report, now())
    return Dispatch(decision, evidence, measured, held, report, head, warnings)
