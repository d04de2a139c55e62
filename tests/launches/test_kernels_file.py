"""The file beside a results CSV that says what calls launch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measure.test_machine_code import elf

from kbench.execute.writer import Writer
from kbench.launches.kernels_file import kernels_path, read_kernels
from kbench.launches.launched_call import (
    DeviceLimits,
    Kernel,
    KernelLaunch,
    LaunchedCall,
    MemoryOperation,
    launch_occupancy,
    machine_code_of,
)
from kbench.launches.machine_code import code_digest, find_code
from kbench.protocol import CallRecorded

ROWS = Kernel("rows(float*)", "_Z4rowsPf", 40, 0, 16, "aaaaaaaaaaaa", "machine code")
SUM = Kernel("sum", "sum", 255, 128, 0, "bbbbbbbbbbbb", "torch 2.11.0")
ONE = LaunchedCall((KernelLaunch(ROWS, (4096, 1, 1), (128, 1, 1), 0, 8),))
TWO = LaunchedCall(
    (KernelLaunch(ROWS, (64, 1, 1), (128, 1, 1), 0, 8), KernelLaunch(SUM, (1, 1, 1), (32, 1, 1), 512, None, 3)),
    (MemoryOperation("memset", 4096),),
)
SUM_BY_NAME = replace(SUM, origin="name and torch 2.11.0")
H200 = DeviceLimits(132, 2048, 65536, 233472, 32, 1024)


def write(writer: Writer, *launched: LaunchedCall, **code_files: str) -> None:
    writer.write([], [CallRecorded(call, H200, code_files) for call in launched], "NVIDIA H200")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "softmax.csv"


def test_calls_are_read_back_as_they_were_written(csv: Path) -> None:
    write(Writer(csv, ()).begin(), ONE, TWO)
    found = read_kernels(csv)
    assert found.calls == {ONE.code: ONE, TWO.code: TWO} and not found.note
    assert found.devices == {"NVIDIA H200": H200}
    assert TWO.kernels == 4, "a launch that is made three times counts three times"


def test_the_code_tells_other_machine_code_from_another_launch() -> None:
    wider = replace(ONE, launches=(replace(ONE.launches[0], grid=(1, 1, 1)),))
    assert wider.code != ONE.code and machine_code_of(wider.code) == machine_code_of(ONE.code)
    changed = replace(ONE, launches=(replace(ONE.launches[0], kernel=replace(ROWS, code="cccccccccccc")),))
    assert machine_code_of(changed.code) != machine_code_of(ONE.code)
    by_name = replace(ONE, launches=(replace(ONE.launches[0], kernel=SUM_BY_NAME),))
    assert by_name.code.startswith("~") and not ONE.code.startswith("~")
    assert LaunchedCall().code == "" and LaunchedCall().kernels == 0


def test_half_a_line_of_a_killed_run_costs_only_that_line(csv: Path) -> None:
    write(Writer(csv, ()).begin(), ONE)
    with kernels_path(csv).open("a") as file:
        file.write('{"call": "123')
    write(Writer(csv, ()).cut([]), TWO)
    found = read_kernels(csv)
    assert set(found.calls) == {ONE.code, TWO.code}
    assert found.note.endswith("softmax.kernels.jsonl:4: cannot be read; the kernels of such a line are not known")
    with kernels_path(csv).open("a") as file:
        file.write("[]\n\n{\n")
    assert read_kernels(csv).note.startswith(f"{kernels_path(csv)}:4, 7, 9: cannot be read")


def test_the_machine_code_of_kernels_is_kept_beside_the_results(csv: Path, tmp_path: Path) -> None:
    cubin = tmp_path / "cache" / "rows.cubin"
    cubin.parent.mkdir()
    cubin.write_bytes(elf(__text__rows=b"code"))
    cubin.with_suffix(".ptx").write_text("ptx")
    digest = code_digest(cubin.read_bytes())
    kernel = replace(ROWS, code=digest)
    files = {digest: str(cubin), "bbbbbbbbbbbb": str(cubin), "cccccccccccc": "/on/another/machine.so"}
    write(Writer(csv, ()).begin(), ONE, **files)
    cubin.unlink()
    kept = find_code(csv, kernel)
    assert kept and kept.read_bytes() == elf(__text__rows=b"code") and kept.with_suffix(".ptx").read_text() == "ptx"
    assert find_code(csv, replace(ROWS, code="bbbbbbbbbbbb")) is None, "the file has changed since it was hashed"
    assert find_code(csv, replace(ROWS, code=f"../kernels/{digest}")) is None, "the code is no path"


def test_a_file_that_was_recorded_on_an_h200_is_read_and_its_names_are_those_of_its_content() -> None:
    """Softmax of 4096 rows, torch 2.11 and kbench's Triton kernel."""
    found = read_kernels(Path(__file__).with_name("h200.csv"))
    assert not found.note and len(found.calls) == 5
    assert {call.code for call in found.calls.values()} == set(found.calls)
    assert {kernel.id for kernel in found.kernels.values()} == set(found.kernels)
    limits = found.devices["NVIDIA H200"]
    for call in found.calls.values():
        for launch in call.launches:
            occupancy = launch_occupancy(launch, limits)
            assert occupancy and occupancy.limits, "the resources that kbench counts explain what the driver said"
