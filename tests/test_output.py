"""Where results go wrong: full disks, folders that cannot be written, files in the way. No existing byte may be lost."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from common import Kbench
from fake_executor import FakeMachine

from kbench.errors import ResultsError
from kbench.execute.writer import Writer, check_writable
from kbench.results.case import Case
from kbench.results.row import Row

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 100, 128], dtype: float32}
providers: [torch-native, torch-eager]
measure: {warmup_ms: 1, rep_ms: 2, rounds: 1}
"""

posix = pytest.mark.skipif(sys.platform == "win32", reason="limits and permissions as POSIX has them")


def row(n: int) -> Row:
    return Row(Case("softmax", {"M": 16, "N": n}, "float32"), "torch-native", ms=0.1)


@pytest.fixture
def run(kbench: Kbench, fake_machine: FakeMachine, tmp_path: Path) -> Kbench:
    """`kbench run` on a made-up machine."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sweep.yaml").write_text(SWEEP)
        return kbench("run", "sweep.yaml", "--no-plot", *options)

    return run


@contextmanager
def file_limit(limit: int) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes, as on a disk that fills up."""
    import resource

    before, writes_no_code = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # Python would leave files of its own that end early
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes_no_code


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


@posix
def test_a_disk_that_fills_up_during_a_run(run: Kbench, tmp_path: Path) -> None:
    assert run().returncode == 0
    csv = tmp_path / "results" / "sweep.csv"
    data = csv.read_bytes()
    middle_of_last_case = (data.index(b"softmax,torch-native,,16,128,") + len(data)) // 2
    shutil.rmtree(tmp_path / "results")

    with file_limit(middle_of_last_case):
        done = run()
    assert done.returncode == 2
    [line] = errors(done)
    assert "results/sweep.csv: cannot be written (File too large); the cases that were written stay" in line
    data = csv.read_bytes()
    assert list(pd.read_csv(csv).N.unique()) == [64, 100] and data.endswith(b"\n")

    with file_limit(middle_of_last_case):
        done = run("--resume")
    assert done.returncode == 2 and len(errors(done)) == 1 and csv.read_bytes() == data

    assert run("--resume").returncode == 0
    assert csv.read_bytes().startswith(data) and list(pd.read_csv(csv).N.unique()) == [64, 100, 128]


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Make a folder refuse new files; to the superuser too, by mounting it read-only over itself."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    if subprocess.run(["mount", "--bind", "-o", "ro", folder, folder]).returncode != 0:
        pytest.skip("the superuser writes everywhere, and may not mount here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_folder_where_the_file_belongs(run: Kbench, tmp_path: Path) -> None:
    (tmp_path / "results" / "sweep.csv").mkdir(parents=True)
    done = run()
    assert done.returncode == 2
    assert errors(done) == [
        "error: results/sweep.csv: is a folder, but kbench writes the results file there; move it away or choose another --out"
    ]
    assert (tmp_path / "results" / "sweep.csv").is_dir()


def test_a_file_where_the_folder_belongs(run: Kbench, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine\n")
    done = run("--out", "taken")
    assert done.returncode == 2
    assert errors(done) == ["error: taken: is not a folder; choose another --out"]
    with pytest.raises(ResultsError, match="is not a folder"):
        check_writable(tmp_path / "taken" / "below" / "sweep.csv")
    assert (tmp_path / "taken").read_text() == "mine\n"


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


def test_a_part_of_a_row_after_all_cases_is_removed(run: Kbench, tmp_path: Path) -> None:
    """A bad copy of a file may end so. Nothing is left to measure, but then sessions can be added."""
    assert run().returncode == 0
    csv = tmp_path / "results" / "sweep.csv"
    whole = csv.read_bytes()
    csv.write_bytes(whole + b"softmax,torch-native,,16,64,forw")
    done = run("--resume")
    assert done.returncode == 0, done.stderr
    line = len(whole.splitlines()) + 1
    assert f"results/sweep.csv:{line}: the incomplete row here is removed" in done.stderr
    assert csv.read_bytes() == whole
    assert run("--append").returncode == 0


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
