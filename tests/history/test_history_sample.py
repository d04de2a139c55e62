"""The example of docs/history.md is what the command prints of the history that tools/history_sample.py makes."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from common import ROOT

from kbench.history.judge_history import judge_runs
from kbench.history.options import HistoryOptions
from kbench.history.presentation.report_text import report_lines
from kbench.history.storage.folder import HistoryFolder


def test_the_example_of_the_page_is_what_is_printed() -> None:
    page = (ROOT / "docs" / "history.md").read_text()
    [shown] = re.findall(r"```console\n\$ kbench history check history\n(.*?)```", page, re.DOTALL)
    sample = runpy.run_path(str(ROOT / "tools" / "history_sample.py"))
    runs = tuple(map(sample["made_run"], range(sample["NIGHTS"])))
    report = judge_runs(HistoryFolder(Path("history"), runs), HistoryOptions())
    assert "\n".join(report_lines(report, colour=False)).strip() == shown.strip(), (
        "replace the example with what `kbench history check` prints now"
    )
