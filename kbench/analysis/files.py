"""Results files with what belongs to them: label, rows, environment and analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kbench.analysis import Analysis, analyse
from kbench.analysis.cases import key_of
from kbench.errors import ResultsError, UsageError
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import Results, parse_source, read_results
from kbench.results.row import Row
from kbench.results.row_filter import RowFilter


@dataclass(frozen=True)
class ResultsFile:
    """A results file.

    label           its name in the picture
    results         the rows that `where` chooses
    configurations  the names of the configurations of all rows, whatever `where` chooses
    environment     the content of the environment file, empty where there is none
    warnings        what could not be read of the file and of its environment file, a line each
    """

    label: str
    results: Results
    configurations: frozenset[str]
    environment: Environment
    warnings: tuple[str, ...] = ()
    where: str = ""

    @property
    def path(self) -> Path:
        return self.results.path

    @property
    def rows(self) -> Sequence[Row]:
        return self.results.rows

    @property
    def axes(self) -> tuple[str, ...]:
        return self.results.axes

    @cached_property
    def analysis(self) -> Analysis:
        """The winners, the standings and the noise of the chosen rows."""
        return analyse(self.rows, self.environment.baseline)


def load_sources(files: Sequence[Path | str], where: str = "") -> list[ResultsFile]:
    """The files, each given as `path` or `LABEL=path`. The default label is the stem of the path. `where` chooses rows.

    A file in which `where` chooses no row of a provider is left out. Raises UsageError if no file is left, or if two labels
    are equal; ResultsError if a file cannot be read.
    """
    if not files:
        raise ResultsError("no results file was given; name a CSV")
    named = [parse_source(file) for file in files]
    stems = [path.stem for _, path in named]
    chosen = RowFilter.parse(where)
    sources, left_out = [], []
    for label, path in named:
        stem = path.stem if stems.count(path.stem) == 1 else f"{path.parent.name}/{path.stem}"
        whole = read_results(path)
        results = chosen.select(whole)
        if chosen.terms and not results.provider_rows:
            left_out.append(whole)
            continue
        configurations = frozenset(row.configuration_name for row in whole.provider_rows)
        environment, note = read_environment(path)
        wrong_baseline = analyse(whole.rows, environment.baseline).wrong_baseline
        for row in results.rows:  # the baseline may be wrong in another session than this row's
            row.speedup = None if key_of(row) in wrong_baseline else row.speedup
        warnings = (*whole.warnings, *filter(None, [note]))
        sources.append(ResultsFile(label or stem, results, configurations, environment, warnings, where))
    if not sources:
        raise UsageError(chosen.nothing(left_out[0]))
    labels = [source.label for source in sources]
    if repeated := next((label for label in labels if labels.count(label) > 1), None):
        raise UsageError(f"two files have the label {repeated!r}; give each its own label: old=a.csv new=b.csv")
    return sources
