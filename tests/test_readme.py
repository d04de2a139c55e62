"""The README shows what kbench prints, and a plug-in that works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT, Kbench

README = (ROOT / "README.md").read_text()
SAMPLES = re.findall(r"```console\n\$ (kbench .*?)\n(.*?)```", README, re.DOTALL)
PLUGINS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
LINES = 120


def test_a_first_time_reader_can_read_it_in_one_go() -> None:
    assert len(README.splitlines()) <= LINES


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


@pytest.mark.slow
def test_the_plug_in_is_right_for_every_input(kbench: Kbench, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    [plugin] = PLUGINS
    (tmp_path / "my_kernels.py").write_text(plugin)
    [command] = re.findall(r"^kbench (check .*?) +#", README, re.MULTILINE)
    done = kbench(*shlex.split(command), "--set", "M=8", "--set", "N=100")
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout.partition("mine\n")[2].strip().splitlines()
    assert len(table) > 10 and all(re.search(r"  ok [0-9.]+$", line) for line in table), done.stdout


def test_every_link_leads_to_a_file() -> None:
    """Of every page of the repository that people read."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
    for page in pages:
        prose = re.sub(r"^```.*?^```|`[^`\n]+`(?!\])", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"#\s]+)", prose):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}"
