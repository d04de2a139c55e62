"""Reads a results file that a run continues: its finished cases, the cases left to measure, and whether rows may be added.

A file can be continued when it contains only cases of the plan, each complete and with its rows in the plan's order. The
cases may be in any order. Only the last case may be incomplete, because a run may have been killed while it wrote the
rows. That case is measured again.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from kbench import files
from kbench.config.resolve import MAX_TASKS, Sweep
from kbench.errors import ResultsError
from kbench.execute.environment_record import MACHINE, find_differences, read_recorded_environment
from kbench.execute.plan import Plan, Task
from kbench.results.case import configuration_name, format_params
from kbench.results.csv_reader import MAX_BYTES, header_fault
from kbench.results.row import Row, csv_header
from kbench.results.vocabulary import Control, Role, Status

REFUSAL, ADVICE = ": cannot be continued: ", "; undo that, or start a new file"
"""What stands before and after the reason why a file is not continued."""

ResumeMode = Literal["resume", "append"]
"""How a run continues a results file: `resume` measures the missing cases, `append` adds sessions to a finished file."""


@dataclass(frozen=True)
class Record:
    """One row of the file as text, the line on which it begins, and its range of bytes."""

    line: int
    start: int
    end: int
    cells: Mapping[str, str]

    @property
    def case(self) -> tuple[str, ...]:
        """The cells that all rows of a task share."""
        names = list(self.cells)
        axes = names[names.index("params") + 1 : names.index("dtype") + 1]
        return (self.cells["session"], self.cells["operator"], *(self.cells[name] for name in axes))


@dataclass(frozen=True)
class ExistingResults:
    """A results file that a run continues.

    plan         the plan with all its sessions, including the sessions in the file
    rows         the rows of finished cases
    left         the tasks of the plan that are not in the file
    keep         the number of bytes at the beginning of the file that contain the finished cases
    cut          whether more follows them: an incomplete case, or a part of a row
    environment  the entries of the environment file; None if the file has no rows
    notes        lines for the user: an incomplete case, and changes of the machine
    """

    path: Path
    plan: Plan
    rows: list[Row]
    left: tuple[Task, ...]
    keep: int
    cut: bool
    environment: dict[str, Any] | None
    notes: list[str]

    @property
    def finished(self) -> int:
        return len(self.plan.tasks) - len(self.left)

    @cached_property
    def hashes(self) -> dict[Any, str]:
        """The hashes of the code of each configuration and of the definition of each case. The rows of a lost worker have
        none."""
        hashes: dict[Any, str] = {row.configuration_name: row.source_hash for row in self.rows if row.source_hash}
        return hashes | {row.case.key: row.case_hash for row in self.rows if row.case_hash}

    def agree(self, rows: Sequence[Row]) -> None:
        """Raise ResultsError if new rows come from other code than the rows of the file."""
        for row in rows:
            if row.source_hash and self.hashes.get(row.configuration_name, row.source_hash) != row.source_hash:
                raise refusal_error(self.path, [f"the code of {row.configuration_name} has changed"])
            if row.case_hash and self.hashes.get(row.case.key, row.case_hash) != row.case_hash:
                raise refusal_error(self.path, [f"the definition of {row.case.operator} has changed"])


def read_existing(
    path: Path, plan: Plan, machine: Mapping[str, Any], mode: ResumeMode, scope: str = "device"
) -> ExistingResults:
    """Read a file and decide how to continue it. `machine` comes from `MachineInfo.to_record`; `scope` is a key of SCOPES.

    Raises ResultsError for a file or environment file that is damaged, has other columns, or does not fit the plan.
    """
    header_end, records, torn = read_records(path, csv_header(plan.sweep.axes))
    _refuse_repeats(path, records)
    environment, note = read_recorded_environment(path) if records else (None, "")
    asked = recorded = plan.sweep.measure.sessions
    if environment:
        present = {"scope": scope, "baseline": plan.sweep.baseline, "measure": plan.sweep.measure.model_dump()}
        if differences := find_differences(environment, dict(machine) | present):
            raise refusal_error(path, differences)
        recorded = environment["measure"]["sessions"]
    layout = _with_sessions(plan, max(recorded, asked) if mode == "resume" else recorded)
    finished, whole = _find_finished(path, records, layout)
    if mode == "append":
        if torn or len(finished) < len(layout.tasks):
            count = layout.progress(len(finished))
            raise ResultsError(f"{path}: {count} are finished; finish the run with --resume before adding sessions")
        layout = _with_sessions(plan, recorded + asked)
    rows = list(_parse_rows(path, records[:whole], layout))
    _refuse_other_weights(path, rows, plan.sweep)
    notes = [*([note] if note else []), f"{path}: {layout.progress(len(finished))} are in the file"]
    left = tuple(task for task in layout.tasks if _case_of(task) not in finished)
    cut = bool(torn) or whole < len(records)
    if cut:
        line = records[whole].line if whole < len(records) else torn
        what = (
            "the incomplete case that begins here is measured again" if left else "the incomplete row here is removed"
        )
        notes.append(f"{path}:{line}: {what}")
    others = [name for name in machine if name not in (*MACHINE[scope], "packages")] if scope == "device" else []
    if changed := [name for name in others if environment and environment.get(name) != machine[name]]:
        notes.append(
            f"{path}: the machine differs from that of the first run ({', '.join(changed)}); continuing anyway"
        )
    return ExistingResults(
        path=path,
        plan=layout,
        rows=rows,
        left=left,
        cut=cut,
        keep=records[whole - 1].end if whole else header_end,
        environment=environment,
        notes=notes,
    )


def refusal_error(path: Path, differences: Sequence[str]) -> ResultsError:
    """The error for a file that cannot be continued."""
    return ResultsError(f"{path}{REFUSAL}{'; '.join(differences)}{ADVICE}")


def _with_sessions(plan: Plan, sessions: int) -> Plan:
    if len(plan.sweep.cases) * sessions > MAX_TASKS:
        what = f"{len(plan.sweep.cases):,} cases in {sessions:,} sessions are too many"
        raise ResultsError(f"{plan.sweep.path}: {what}; cases times sessions may be at most {MAX_TASKS:,}")
    first = [task for task in plan.tasks if task.session == 0]
    tasks = tuple(dataclasses.replace(task, session=number) for number in range(sessions) for task in first)
    measure = plan.sweep.measure.model_copy(update={"sessions": sessions})
    return dataclasses.replace(plan, sweep=dataclasses.replace(plan.sweep, measure=measure), tasks=tasks)


# -- the file


def read_records(path: Path, header: list[str]) -> tuple[int, list[Record], int | None]:
    """The end of the header in bytes, the complete records, and the line of a last record that is incomplete."""
    try:
        data = files.read_bytes(path, MAX_BYTES)
    except files.Unreadable as error:
        raise ResultsError(f"{path}: {error}; move the file away to start anew") from None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    line, start = 0, len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0  # an editor may have added the mark
    # surrogateescape keeps the number of bytes of an incomplete character
    lines = list(io.StringIO(data[start:].decode(errors="surrogateescape"), newline=""))
    reader = csv.reader(lines)
    found: list[tuple[int, int, int, list[str]]] = []
    try:
        for cells in reader:
            end = start + len("".join(lines[line : reader.line_num]).encode(errors="surrogateescape"))
            found.append((line + 1, start, end, cells))
            line, start = reader.line_num, end
    except csv.Error as error:
        raise ResultsError(f"{path}:{line + 1}: not readable as CSV ({error}); {_REPAIR}") from None
    if not found or found[0][3] != header or not data[: found[0][2]].endswith(b"\n"):
        fault = header_fault(found[0][3] if found else [], header)
        raise ResultsError(f"{path}:1: {fault}; move the file away to start anew")
    (_, _, header_end, _), *rest = found
    torn = None
    if rest and (len(rest[-1][3]) < len(header) or not data.endswith(b"\n")):
        torn = rest.pop()[0]
    for number, _, _, cells in rest:
        if len(cells) != len(header):
            counts = f"{len(cells)} fields where the header has {len(header)}"
            raise ResultsError(f"{path}:{number}: {counts}; {_REPAIR}")
    return header_end, [Record(n, a, b, dict(zip(header, cells, strict=True))) for n, a, b, cells in rest], torn


def _refuse_repeats(path: Path, records: Sequence[Record]) -> None:
    lines: dict[tuple[str, ...], int] = {}
    for record in records:
        cells = record.cells
        identity = (*record.case, cells["role"], cells["provider"], cells["params"])
        if identity in lines:
            what = f"repeats line {lines[identity]}: the same provider, case and session"
            raise ResultsError(f"{path}:{record.line}: {what}; delete one of the two lines")
        lines[identity] = record.line


def _find_finished(path: Path, records: Sequence[Record], plan: Plan) -> tuple[set[tuple[str, ...]], int]:
    """The complete cases of the file, and the number of their records. Raises ResultsError for a row outside the plan."""
    tasks = {_case_of(task): task for task in plan.tasks}
    groups = [list(group) for _, group in groupby(records, key=lambda record: record.case)]
    finished: set[tuple[str, ...]] = set()
    count = 0
    for group in groups:
        task = tasks.get(group[0].case)
        if task is None:
            raise ResultsError(f"{path}:{group[0].line}: the case of this row is not in the sweep; {_SAME}")
        names = [(r.cells["provider"], r.cells["params"]) for r in group if r.cells["role"] == Role.PROVIDER]
        wanted = [(one.provider, format_params(one.params)) for one in task.configurations]
        for record, found, expected in zip(group, names, wanted, strict=False):
            if found != expected:
                name, wanted_name = configuration_name(*found), configuration_name(*expected)
                raise ResultsError(f"{path}:{record.line}: found provider {name}, expected {wanted_name}; {_SAME}")
        if len(names) > len(wanted):
            raise ResultsError(
                f"{path}:{group[len(wanted)].line}: this run has no provider {configuration_name(*names[len(wanted)])}; {_SAME}"
            )
        if len(names) < len(wanted) or not _has_controls(group, task):
            if group is not groups[-1]:
                what = "rows of this case are missing after this line"
                remedy = f"if you deleted lines of this case, delete its other lines too; otherwise {_SAME}"
                raise ResultsError(f"{path}:{group[-1].line}: {what}; {remedy}")
            break
        finished.add(group[0].case)
        count += len(group)
    return finished, count


_REPAIR = "repair the line, or delete all lines of its case: kbench then measures the case again"
_SAME = "continue the file with its original config and options, or start a new file"


def _case_of(task: Task) -> tuple[str, ...]:
    return (str(task.session), task.case.operator, *(str(value) for value in task.case.axes.values()), task.case.dtype)


def _has_controls(group: Sequence[Record], task: Task) -> bool:
    """Whether the rows of a case include its controls. A run writes the controls last, so an incomplete case lacks them."""
    timed = {(r.cells["provider"], r.cells["params"]) for r in group if r.cells["status"] == Status.OK.value}
    present = {r.cells["provider"] for r in group if r.cells["role"] != Role.PROVIDER}
    base = next((one for one in task.configurations if one.name == task.baseline), None)
    needed = {Control.COPY, Control.EMPTY} if timed else set()
    if base and (base.provider, format_params(base.params)) in timed:
        needed.add(Control.REPEAT)
    return needed <= present


def _parse_rows(path: Path, records: Sequence[Record], plan: Plan) -> Iterator[Row]:
    cases = {_case_of(task): task.case for task in plan.tasks}
    for record in records:
        try:
            yield Row.from_cells(cases[record.case], record.cells)
        except ValueError as error:
            raise ResultsError(f"{path}:{record.line}: {error}; {_REPAIR}") from None


def _refuse_other_weights(path: Path, rows: Sequence[Row], sweep: Sweep) -> None:
    """The weights of a file are those of one file of shapes."""
    for row in rows:
        if row.weight != (weight := sweep.weights.get(row.case.key)):
            known = [number if number is not None else "not given" for number in (row.weight, weight)]
            raise refusal_error(path, [f"the weight of {row.case.label} was {known[0]} and is now {known[1]}"])
