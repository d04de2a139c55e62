"""The commands that the README gives to somebody who has just cloned the repository."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from promises.outside import ROOT

README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("target", ["bench", "test"])
def test_the_readme_names_a_make_target_that_exists_and_its_minutes(target: str) -> None:
    assert re.search(rf"^make {target} ", README, re.MULTILINE)
    assert re.search(rf"`make {target}` takes .*?(minutes|nine)", README)
    planned = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert planned.returncode == 0, planned.stderr
    assert {"bench": "configs/softmax.yaml", "test": "pytest"}[target] in planned.stdout


def test_the_readme_installs_with_the_constraints() -> None:
    assert "pip install -c constraints.txt ." in README and (ROOT / "constraints.txt").is_file()
    assert "\npip install .\n" not in README


def test_the_readme_says_what_kbench_needs_and_what_its_package_is_called() -> None:
    [torch] = [each for each in PROJECT["dependencies"] if each.startswith("torch")]
    assert f"{torch.removeprefix('torch>=')} or newer" in README
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')}" in README
    assert f"`{PROJECT['name']}`" in README
    assert re.search(r"\b\d GB\b", README) and "Linux" in README and "macOS" in README


def test_the_readme_leads_to_the_github_action() -> None:
    assert (ROOT / "action.yml").is_file() and re.search(r"\[action\]\(docs/comparing\.md", README)
