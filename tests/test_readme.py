"""The README shows what kbench prints, and every link of the documents leads to a file."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT

README = (ROOT / "README.md").read_text()
SAMPLES = re.findall(r"```console\n\$ (kbench .*?)\n(.*?)```", README, re.DOTALL)
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
    advice = f"if kbench is meant to print something else, replace the sample in README.md with what `{command}` prints"
    assert done.stdout.strip() == shown.strip(), advice


def test_every_link_leads_to_a_file_and_to_a_heading_of_it() -> None:
    """Of every page of the repository that people read."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
    for page in pages:
        prose = re.sub(r"^```.*?^```|`[^`\n]+`(?!\])", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link, heading in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"#\s]*)(?:#([^)\s]+))?", prose):
            if not link.startswith("http"):
                target = page.parent / link if link else page
                assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
                assert not heading or heading in headings(target), f"{page.relative_to(ROOT)}: {link}#{heading}"


def headings(page: Path) -> set[str]:
    """The headings of a page, as links name them: in small letters, without signs, with hyphens."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_every_tool_that_is_named_exists() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for tool in re.findall(r"\btools/\w+\.py", page.read_text()):
            assert (ROOT / tool).exists(), f"{page.relative_to(ROOT)}: {tool}"
