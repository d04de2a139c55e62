"""`kbench ab --build`: where a revision is built, and a build that fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ab_command import ab
from planted_repository import CONFIG, Machine, commit, git

from kbench.revisions.repository import Repository


def test_the_copy_that_is_built_has_the_files_of_the_working_tree(repository: Path, tmp_path: Path) -> None:
    for name in ("folder/inside", "gone", "changed", "staged"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("before")
    commit(repository, 1.0)
    shutil.rmtree(repository / "folder")
    (repository / "folder").write_text("a file now")
    (repository / "gone").unlink()
    (repository / "cost").rename(repository / "moved")
    (repository / "changed").write_text("after")
    (repository / "staged").write_text("after")
    git(repository, "add", "staged")
    (repository / "link").symlink_to("nowhere")
    (repository / "results").mkdir()
    (repository / "results" / "ignored").touch()
    copy, found = tmp_path / "copy", Repository.of(repository)
    found.add_worktree(copy, found.commit("HEAD"))
    found.copy_uncommitted(copy)
    assert tree(copy) == {name: text for name, text in tree(repository).items() if "results" not in name}


def tree(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    inside = [path for path in files if path.relative_to(folder).parts[0] != ".git"]
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in inside
    }


@pytest.mark.slow
def test_a_build_runs_in_an_environment_of_its_own_and_not_in_the_working_tree(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    (repository / "cost").write_text("2.0")  # not committed
    (repository / "new file").write_text("untracked")
    done = ab(
        repository,
        "old",
        CONFIG,
        "--build",
        "python -c 'from importlib.util import find_spec; exit(not find_spec(\"torch\"))' && command -v pip > built && "
        f"cp built '{tmp_path}'/$(basename $PWD)",
    )
    assert done.returncode == 0 and "+100.0%" in done.stdout, done.stderr
    assert [folder.name for folder in machine.sides[:2]] == ["base", "head"]
    for side in ("base", "head"):  # pip would install there
        assert f"/environment-{side}/bin/pip" in (tmp_path / side).read_text()


@pytest.mark.slow
def test_a_build_that_fails_shows_its_exit_code_and_the_end_of_its_output(repository: Path, machine: Machine) -> None:
    done = ab(repository, "old", CONFIG, "--build", "seq 100; echo no compiler >&2; exit 7")
    assert done.returncode == 3 and machine.sides == []
    assert "no compiler" in done.stderr and "failed: exit code 7" in done.stderr
