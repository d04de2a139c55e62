"""Results files with what belongs to them: label, rows, environment and analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kbench.analysis import Analysis, analyse
from kbench.analysis.cases import baseline_of, key_of, wrong_cases
from kbench.analysis.noise import noise_of
from kbench.errors import ResultsError, UsageError
from kbench.results.environment import Environment, environment_path, read_environment
from kbench.results.reader import Results, parse_source, read_results
from kbench.results.row import Row
from kbench.results.row_filter import RowFilter

ALL_ROWS = RowFilter(())


@dataclass(frozen=True)
class ResultsFile:
    """A results file, or a frame of its rows.

    label        what its user calls it; "" if nobody has given it a name
    whole        all its rows
    environment  the content of the environment file, empty where there is none
    note         what is wrong with the environment file; "" if nothing is
    where        chooses the rows that are used
    """

    label: str
    whole: Results
    environment: Environment
    note: str = ""
    where: RowFilter = ALL_ROWS

    @property
    def path(self) -> Path:
        return self.whole.path

    @cached_property
    def baseline(self) -> str | None:
        """The configuration that the speed-ups of all rows are over."""
        return baseline_of(self.whole.rows, self.environment.baseline)

    @cached_property
    def results(self) -> Results:
        """The rows that `where` chooses. They have no speed-up over a baseline that is wrong, perhaps in another session."""
        chosen, wrong = self.where.select(self.whole), wrong_cases(self.whole.rows, self.baseline)
        if not wrong:
            return chosen
        rows = [replace(row, speedup=None) if key_of(row) in wrong else row for row in chosen.rows]
        return replace(chosen, rows=rows)

    @property
    def rows(self) -> Sequence[Row]:
        return self.results.rows

    @property
    def axes(self) -> tuple[str, ...]:
        return self.whole.axes

    @property
    def warnings(self) -> list[str]:
        """What the file lacks, and what could not be read of it and of its environment file, a line each."""
        warnings = [*self.whole.warnings, self.note]
        if self.environment.interrupted:
            warnings.append(f"{self.path}: the run was interrupted, so rows may be missing")
        return list(filter(None, warnings))

    @cached_property
    def analysis(self) -> Analysis:
        """The winners and the standings of the chosen rows, and the noise of their cases: also where `where` leaves out the
        baseline, the noise is that of its rows."""
        analysis = analyse(self.rows, self.environment.baseline)
        if self.where.terms:
            chosen = {(key_of(row), row.session) for row in self.rows}
            rows = [row for row in self.whole.rows if (key_of(row), row.session) in chosen]
            return replace(analysis, noise=noise_of(rows, self.baseline))
        return analysis


Source = str | Path | ResultsFile
"""A results file as callers name it: `path`, `LABEL=path`, or one that is read already."""


def read_file(source: Source) -> ResultsFile:
    """All rows of a file, with its environment. Raises ResultsError if it cannot be read."""
    if isinstance(source, ResultsFile):
        return source
    label, path = parse_source(source)
    return ResultsFile(label, read_results(path), *read_environment(path))


def read_files(sources: Sequence[Source], where: str) -> list[ResultsFile]:
    """The files with the rows that `where` chooses; "" chooses all. Raises UsageError if it chooses no row of a provider in any
    file, and ResultsError if a file cannot be read."""
    files, chosen = [read_file(source) for source in sources], RowFilter.parse(where)
    if not chosen.terms:
        return files
    files = [replace(file, where=chosen) for file in files]
    if not any(file.results.provider_rows for file in files):
        raise UsageError(chosen.nothing(files[0].whole))
    return files


def load_sources(sources: Sequence[Source], where: str) -> list[ResultsFile]:
    """The files, with the stem of the path for a label where the user gave none. `where` chooses rows.

    A file in which `where` chooses no row of a provider is left out. Raises as `read_files` does, and UsageError if two labels
    are equal.
    """
    if not sources:
        raise ResultsError("no results file was given; name a CSV")
    files = read_files(sources, where)
    stems = [file.path.stem for file in files]
    kept = []
    for file in files:
        stem = file.path.stem if stems.count(file.path.stem) == 1 else f"{file.path.parent.name}/{file.path.stem}"
        note = file.note if environment_path(file.path).exists() else ""
        if not file.where.terms or file.results.provider_rows:
            kept.append(replace(file, label=file.label or stem, note=note))
    check_labels(kept)
    return kept


def check_labels(files: Iterable[ResultsFile]) -> None:
    """Raises UsageError if two files have the same label."""
    for label, count in Counter(file.label for file in files).items():
        if label and count > 1:
            raise UsageError(f"two files have the label {label}; give each its own label: old=a.csv new=b.csv")
