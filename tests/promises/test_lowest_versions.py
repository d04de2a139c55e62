"""The versions that pyproject.toml allows. A job of CI installs the lowest of them and runs these tests."""

from __future__ import annotations

import re
import tomllib

from promises.outside import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ALL = [*PROJECT["dependencies"], *(each for extra in PROJECT["optional-dependencies"].values() for each in extra)]


def release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_every_dependency_has_a_lowest_version() -> None:
    without = [each for each in ALL if not re.match(r"[A-Za-z0-9-]+>=[0-9.]+", each)]
    assert without == []


def test_the_versions_that_make_installs_are_allowed() -> None:
    lowest = {name.lower(): release(version) for name, version in re.findall(r"([\w-]+)>=([0-9.]+)", "\n".join(ALL))}
    pinned = re.findall(r"^([\w-]+)==([0-9.]+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert len(pinned) > 20
    for name, version in pinned:
        assert release(version) >= lowest.get(name.lower(), ()), f"{name}=={version}"


def test_ci_tests_the_lowest_versions() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert "make promises CONSTRAINTS=lowest.txt" in workflow
