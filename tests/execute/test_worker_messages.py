"""Messages that no worker of kbench sends, and rows that nobody asked for, cost the row of the provider that runs there."""

from __future__ import annotations

import os

import pytest
from stand_in import CULPRIT, HONEST, StandIn, measured

from kbench.execute.worker.worker_process import NONSENSE
from kbench.results.vocabulary import Status

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the stand-ins use POSIX")


NONSENSES = {
    "null": "raw('null\\n')",
    "a list": "raw('[]\\n')",
    "a number": "raw('7\\n')",
    "an object": "raw('{}\\n')",
    "a message without the secret": 'raw(\'{"type": "RequestDone"}\\n\')',
    "bytes": "raw(bytes(range(128, 256)) * 99 + b'\\n')",
    "a line without an end": "raw(b'0' * (1 << 26))",
    "deep nesting": "raw(secret + ' ' + '[' * 100000 + '\\n')",
    "a number of 400 digits": "say('StepEnded', index=10**400)",
    "a number of 100000 digits": "raw(secret + ' {\"type\": \"StepEnded\", \"index\": ' + '1' * 100000 + '}\\n')",
    "no kind": "say('nonsense')",
    "a kind that is no text": "say([])",
    "missing fields": "say('StepBegun', index=1)",
    "words for numbers": "say('StepBegun', index='one', name='culprit', step='build', limit_s=20)",
    "a step that is none": "say('StepBegun', index=1, name='culprit', step='nonsense', limit_s=20)",
    "a limit without end": "say('StepBegun', index=1, name='culprit', step='build', limit_s=1e300)",
    "a limit that is no number": "say('StepBegun', index=1, name='culprit', step='build', limit_s=float('nan'))",
    "a loss that is none": "say('DeviceFailed', status='nonsense', reason='')",
    "rows that are none": "say('Rows', rows=[1, 2, 3])",
}


@pytest.mark.parametrize("nonsense", NONSENSES)
def test_nonsense_in_the_pipe_costs_its_own_row(nonsense: str, stand_in: StandIn) -> None:
    stand_in(CULPRIT.replace("LIMIT", "20").replace("DEED", NONSENSES[nonsense] + "; time.sleep(60)"))
    rows = measured("culprit", "behind")
    assert (rows["culprit"].status, rows["behind"].status) == (Status.CRASHED, Status.OK)
    assert rows["culprit"].reason == f"{NONSENSE} while building"


FORGED = {
    "none": "say('Rows', rows=[])",
    "of another provider": "say('Rows', rows=[row('other')])",
    "twice": "say('Rows', rows=rows() + rows())",
    "in two messages": "say('Rows', rows=rows()); say('Rows', rows=rows())",
    "of another case": "say('Rows', rows=[row(name, case=request['case'] | {'axes': {'M': 1, 'N': 1}}) for name in names()])",
    "of another session": "say('Rows', rows=[row(name, session=7) for name in names()])",
    "a control of another name": "say('Rows', rows=rows(row('fast', role='control')))",
    "a control twice": "say('Rows', rows=rows(row('copy', role='control'), row('copy', role='control')))",
    "without a message": "pass",
}


@pytest.mark.parametrize("forged", FORGED)
def test_rows_that_were_not_asked_for_are_refused(forged: str, stand_in: StandIn) -> None:
    stand_in(f"begin(); say('StepEnded', index=0)\n{FORGED[forged]}")
    rows = measured("mine")
    assert list(rows) == ["mine"]
    assert rows["mine"].status is Status.CRASHED and NONSENSE in rows["mine"].reason


BAD_ROWS = ["ms='1'", "ms=float('nan')", "ms=float('inf')", "ms=-1.0", "ms=None", "round_ms=[None]", "role='nobody'"]
BAD_ROWS += ["reason=7", "samples=10**30", "gbps=10**400", "status='fast'", "case=[]", "unknown=1", "flags='abc'"]


@pytest.mark.parametrize("field", BAD_ROWS)
def test_rows_of_other_types_are_refused(field: str, stand_in: StandIn) -> None:
    stand_in(f"begin(); say('StepEnded', index=0)\nsay('Rows', rows=[row('mine', **dict({field}))])")
    row = measured("mine")["mine"]
    assert row.status is Status.CRASHED and NONSENSE in row.reason


def test_a_reason_is_one_line_of_bounded_length(stand_in: StandIn) -> None:
    stand_in("say('Rows', rows=[row('mine', status='error', ms=None, round_ms=[], reason='\\x1b[2J\\n' * 100000)])")
    reason = measured("mine")["mine"].reason
    assert len(reason) < 3000 and reason.isprintable()


def test_what_python_prints_at_its_start_does_no_harm(stand_in: StandIn) -> None:
    stand_in(HONEST, start="raw('conda is activated\\n\\n')")
    assert measured("mine")["mine"].status is Status.OK
