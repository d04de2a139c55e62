"""The README shows what kbench prints: its samples are made from files of the repository, and must not grow old."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from common import ROOT

SAMPLES = re.findall(r"```console\n\$ (kbench .*?)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_there_are_samples_of_a_summary_and_of_a_comparison() -> None:
    assert [shlex.split(command)[1] for command, _ in SAMPLES] == ["show", "compare"]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "shown"), SAMPLES, ids=[shlex.split(command)[1] for command, _ in SAMPLES])
def test_a_sample_is_what_is_printed(command: str, shown: str) -> None:
    arguments = [sys.executable, "-m", "kbench", *shlex.split(command)[1:]]
    done = subprocess.run(
        arguments, cwd=ROOT, env=os.environ | {"COLUMNS": "100"}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == shown.strip(), f"replace the sample in README.md with what `{command}` prints now"
