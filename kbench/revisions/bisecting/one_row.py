"""The one row that `kbench bisect --row` asks about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kbench.analysis import rows_of
from kbench.errors import UsageError
from kbench.results import table
from kbench.results.row import CONDITION_COLUMNS, IDENTITY_COLUMNS
from kbench.results.row_filter import FILTERABLE, RowFilter
from kbench.results.vocabulary import Role

NOT_SWEPT = {*IDENTITY_COLUMNS, *FILTERABLE, *CONDITION_COLUMNS} - {"dtype"}
"""Columns of a row that are no keys of a sweep."""

MOST_NAMED = 6
"""An error names this many of the rows that match."""


def arguments_for(row: str) -> list[str]:
    """The arguments with which `kbench run` measures only what the terms of a row name with `=`, such as
    `provider=triton,N=4096`. Raises UsageError for a text without terms."""
    with _row_in_errors():
        terms = RowFilter.parse(row).terms
        if not terms:
            raise UsageError("--row is empty; name one row, for example --row 'provider=triton,N=4096'")
        arguments = []
        for term in terms:
            if term.comparison != "=" or any(re.search(r"[*?]", value) for value in term.values):
                continue
            if term.column == "provider":
                arguments += ["--only", ",".join(term.values)]
            elif term.column not in NOT_SWEPT:
                values = [str(term.size(each)) if re.fullmatch(r"\d+[kmgKMG]", each) else each for each in term.values]
                arguments += ["--set", f"{term.column}={','.join(values)}"]
    return arguments


@contextmanager
def blaming_the_row(row: str) -> Iterator[None]:
    """Inside, an error of `kbench run` about one of the arguments of `arguments_for` names --row, which the user wrote."""
    made = arguments_for(row)
    try:
        yield
    except UsageError as error:
        text = str(error)
        for option, value in zip(made[::2], made[1::2], strict=True):
            text = text.replace(f"{option} {value}: ", f"--row {row}: ")
        raise UsageError(text) from None


def name_of_row(csv: Path, row: str) -> str:
    """What a row of results is called: `softmax M=4096 N=256 float32 triton`. Raises UsageError unless the terms match one row,
    and ResultsError for results that cannot be read."""
    frame = table.read_results(csv)
    with _row_in_errors():
        found = RowFilter.parse(row)
        chosen = found.select(frame)
        rows = [each for each in rows_of(chosen) if each.role == Role.PROVIDER]
        names = list(dict.fromkeys(f"{each.case.label} {each.configuration_name}" for each in rows))
        if not names:
            raise UsageError(f"--row {row}: {found.nothing(frame)}")
    if len(names) > 1:
        shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
        raise UsageError(
            f"--row {row}: matches {len(names)} rows, but must match one; add terms that choose one of these rows: {shown}"
        )
    return names[0]


@contextmanager
def _row_in_errors() -> Iterator[None]:
    """--where and --row take the same terms. Inside, errors about the terms name --row."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace("--where", "--row", 1)) from None
