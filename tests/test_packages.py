"""What kbench tells people to type after `pip install`."""

from __future__ import annotations

import re
import tomllib

from common import ROOT

from kbench.contract.provider import REQUIREMENTS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_packages_are_the_extras_of_the_project() -> None:
    extras = PROJECT["optional-dependencies"]
    assert [[package] for package in REQUIREMENTS.values()] == [v for k, v in extras.items() if k != "test"]


def test_no_page_tells_people_to_install_the_other_kbench() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        lines = [line for line in page.read_text().splitlines() if re.search(r"pip3? install '?kbench\b(?!-gpu)", line)]
        assert all(line.startswith("Do not type") for line in lines), (page, lines)
