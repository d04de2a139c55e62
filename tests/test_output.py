"""Where results go wrong: full disks, folders that cannot be written, files in the way. No existing byte may be lost."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from common import Kbench
from fake_executor import FakeMachine

from kbench.errors import ResultsError
from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.row import Row

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 100, 128], dtype: float32}
providers: [torch-native, torch-eager]
measure: {warmup_ms: 1, rep_ms: 2, rounds: 1}
"""


def row(n: int) -> Row:
    return Row(Case("softmax", {"M": 16, "N": n}, "float32"), "torch-native", ms=0.1)


@pytest.fixture
def run(kbench: Kbench, fake_machine: FakeMachine, tmp_path: Path) -> Kbench:
    """`kbench run` on a made-up machine."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sweep.yaml").write_text(SWEEP)
        return kbench("run", "sweep.yaml", "--no-plot", *options)

    return run


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


def contents(folder: Path) -> dict[str, str]:
    """Hashes of everything below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if not mount or subprocess.run([mount, "-t", "tmpfs", "-o", "size=32k", "tmpfs", disk]).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_full_disk_is_found_before_anything_is_moved(small_disk: Path) -> None:
    path = small_disk / "sweep.csv"
    Writer(path, ("M", "N")).write([row(1)])
    with pytest.raises(OSError, match="No space left"), (small_disk / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    before = contents(small_disk)
    with pytest.raises(ResultsError, match="No space left"):
        Writer(path, ("M", "N"))
    assert contents(small_disk) == before


@pytest.mark.parametrize("how", ["--resume", "--append"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "older",
            "operator,provider,params,M,N,dtype,role,session,status\nsoftmax,triton,,16,64,float32,provider,0,ok\n",
        ),
        ("foreign", "a,b\n1,2\n"),
        ("empty", ""),
    ],
)
def test_files_that_cannot_be_continued(run: Kbench, tmp_path: Path, how: str, name: str, text: str) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "sweep.csv").write_text(text)
    before = contents(folder)
    done = run(how)
    assert done.returncode == 2, name
    [error] = errors(done)
    assert error.startswith("error: results/sweep.csv:")
    assert contents(folder) == before


def test_a_repeated_row_and_a_truncated_file(run: Kbench, tmp_path: Path) -> None:
    assert run().returncode == 0
    folder = tmp_path / "results"
    csv = folder / "sweep.csv"
    whole = csv.read_bytes()
    lines = whole.splitlines(keepends=True)

    csv.write_bytes(whole + lines[1])
    before = contents(folder)
    for how in ("--resume", "--append"):
        done = run(how)
        assert done.returncode == 2
        assert (
            errors(done)[0].startswith(f"error: results/sweep.csv:{len(lines) + 1}: ")
            and "is also on line 2" in errors(done)[0]
        )
        assert contents(folder) == before

    csv.write_bytes(whole[:-20])
    before = contents(folder)
    done = run("--append")
    assert done.returncode == 2 and "finish the run with --resume" in errors(done)[0]
    assert contents(folder) == before
