"""`--resume` and `--append`: which rows are kept, what is measured, and which files are refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from kbench.config import load
from kbench.config.plan import Plan
from kbench.contract.tensor import Layout
from kbench.errors import ResultsError
from kbench.execute.existing_results import ResumeMode, StartingPoint, read_existing
from kbench.execute.writer import Writer
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo
from kbench.results.environment import Environment, Machine
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.vocabulary import Role, Status

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 100], dtype: float32}
providers: [torch-native, torch-eager, cuda]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 2, rounds: 1, sessions: 2}
"""

PACKAGES = {"kbench": "1.0", "torch": "2.11.0", "triton": "3.6.0", "numpy": "2.0"}
MACHINE = Machine(device_type="cpu", device="A host", triton_interpreter=False, packages=PACKAGES, driver=None)


PROVIDERS = {
    "torch-native": ProviderInfo(source_hash="torch-native"),
    "torch-eager": ProviderInfo(source_hash="torch-eager"),
    "cuda": ProviderInfo(unavailable="no nvcc"),
}

MATRIX = {"x": Layout(("M", "N"))}

SOFTMAX = OperatorInfo(("M", "N"), {}, ("float32",), providers=PROVIDERS, inputs=MATRIX, outputs=MATRIX)

CATALOG = Catalog(DeviceInfo("cpu", "A host"), (), {"softmax": SOFTMAX}, (), MACHINE)


def plan_in(folder: Path, text: str = SWEEP, **sets: object) -> Plan:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return load.load_config(path, sets=[f"{k}={v}" for k, v in sets.items()]).resolve(CATALOG)


def rows_of(plan: Plan) -> list[list[Row]]:
    """Rows that a run of this plan could have measured, one list per case. The reasons are hard to read back from a CSV."""
    cases = []
    for task in plan.tasks:
        common: dict[str, Any] = {"case": task.case, "session": task.session, "case_hash": "c", "env_id": "e"}
        ok = common | {"ms": 0.1 + task.session / 3, "round_ms": (0.1, 0.2), "deterministic": True, "samples": 3}
        rows = [Row(provider=c.provider, source_hash=c.provider, **ok) for c in task.configurations[:2]]
        reason = 'no "nvcc", µ | <third>'
        rows.append(Row(provider="cuda", status=Status.UNAVAILABLE, reason=reason, **common))
        rows += [
            Row(provider=name, role=Role.CONTROL, flags=("noisy", "cold"), **ok) for name in ("copy", "empty", "repeat")
        ]
        cases.append(rows)
    return cases


def write_finished(plan: Plan, folder: Path) -> tuple[Path, list[int]]:
    """Write a finished results file and its environment file. Returns its path and its sizes,
    before the first case and after each."""
    path = folder / "sweep.csv"
    writer = Writer(path, plan.info.columns).begin()
    sizes = [path.stat().st_size]
    for rows in rows_of(plan):
        writer.write(rows)
        sizes.append(path.stat().st_size)
    measured = {"measure": plan.measure.model_dump(), "baseline": "torch-native", "env_id": "e"}
    writer.write_environment(Environment.model_validate(MACHINE.entries() | measured | {"config": {"sha": ""}}))
    return path, sizes


def read(
    path: Path, plan: Plan, machine: Machine = MACHINE, how: ResumeMode = "resume", scope: str = "device"
) -> StartingPoint:
    plan = dataclasses.replace(plan, catalog=dataclasses.replace(plan.catalog, machine=machine))
    return read_existing(path, plan, how, scope)


def refused(path: Path, plan: Plan, machine: Machine = MACHINE, **how: Any) -> str:
    before = hashlib.sha256(path.read_bytes()).digest()
    with pytest.raises(ResultsError) as caught:
        read(path, plan, machine, **how)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.slow
def test_a_file_cut_anywhere_is_read_and_resumed_at_the_right_case(tmp_path: Path, notes: list[str]) -> None:
    plan = plan_in(tmp_path, N="64")
    path, sizes = write_finished(plan, tmp_path)
    data = path.read_bytes()
    for size in [sizes[0], *range(sizes[1] - 300, len(data), 3), len(data)]:  # the end of one case, and all of another
        path.write_bytes(data[:size])
        past = read(path, plan, MACHINE, "resume")
        whole = sum(after <= size + 1 for after in sizes[1:])  # without its line break the last row is whole
        assert len(past.rows) == 6 * whole, f"cut at byte {size}"
        assert past.remaining == plan.tasks[whole:]
        if size % 20 == 0:
            assert len(read_results(path).rows) >= len(past.rows)
        if size > sizes[whole]:
            assert "incomplete case" in notes[-1]


def other(**entries: Any) -> Machine:
    return MACHINE.model_copy(update=entries)


def test_cases_may_stand_in_any_order_and_any_may_be_missing(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    path, sizes = write_finished(plan, tmp_path)
    data = path.read_bytes()
    header, *cases = [data[a:b] for a, b in zip([0, *sizes], sizes, strict=False)]
    path.write_bytes(header + cases[3] + cases[0] + cases[2][:-30])
    past = read(path, plan, MACHINE, "resume")
    assert past.remaining == (plan.tasks[1], plan.tasks[2])
    assert past.rows == rows_of(plan)[3] + rows_of(plan)[0]
    path.write_bytes(header + cases[3].rsplit(b"\n", 2)[0] + b"\n" + cases[0])
    assert f"{path}:2: rows of this case are missing" in refused(path, plan), "only the last case may be cut short"
    path.write_bytes(header + cases[0] + cases[2])
    assert read(path, plan, MACHINE, "resume").remaining == (plan.tasks[1], plan.tasks[3])


def test_what_was_begun_on_one_device_is_not_continued_on_several(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    path, _ = write_finished(plan, tmp_path)
    assert "devices was the current one and is now those of --devices" in refused(path, plan, scope="host")
    beside = path.with_suffix(".env.json")
    beside.write_text(json.dumps(json.loads(beside.read_text()) | {"scope": "cluster"}))
    first = other(device="B host", packages={"kbench": "1.0", "torch": "3.0"})
    assert read(path, plan, first, "resume", "cluster").remaining == ()
    with pytest.raises(ResultsError, match="kbench was 1"):
        read(path, plan, other(packages={"kbench": "2.0"}), "resume", "cluster")


def test_a_new_driver_is_noted_and_another_torch_or_device_refused(tmp_path: Path, notes: list[str]) -> None:
    plan = plan_in(tmp_path, timeout_s=5)
    path, _ = write_finished(plan, tmp_path)
    machine = other(driver="1", packages=PACKAGES | {"numpy": "3.0"})
    read(path, plan_in(tmp_path, timeout_s=9), machine, "resume")
    assert "driver" in notes[-1]
    newer = other(packages=PACKAGES | {"torch": "2.12.0"}, device="B host")
    assert "device was A host and is now B host; torch was 2.11.0 and is now 2.12.0" in refused(path, plan, newer)


def test_refuses_another_sweep_and_says_where(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    path, _ = write_finished(plan, tmp_path)
    lines = path.read_bytes().count(b"\n", 0, path.read_bytes().index(b",100,"))
    where = refused(path, plan_in(tmp_path, N="[64, 96]"))
    assert where.startswith(f"{path}:{lines + 1}: the case of this row is not in the sweep")
    fewer = plan_in(tmp_path, SWEEP.replace("torch-eager, ", ""))
    assert f"{path}:3: this run has no provider torch-eager" in refused(path, fewer)
    assert f"{path}:8: the case of this row is not in the sweep" in refused(path, plan_in(tmp_path, N="64"))


def test_refuses_a_sidecar_that_does_not_tell(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    path, _ = write_finished(plan, tmp_path)
    beside = path.with_suffix(".env.json")
    text = beside.read_text()
    beside.write_text(text[: len(text) // 2])
    assert refused(path, plan).startswith(f"{beside}:")
    beside.write_text(text.replace('"sessions": 2', '"sessions": "2"'))
    assert refused(path, plan).startswith(f"{beside}: does not say how")
    beside.unlink()
    assert f"{beside}: no such file" in refused(path, plan)


def test_sessions_go_on_from_the_highest(tmp_path: Path) -> None:
    two = plan_in(tmp_path)
    path, sizes = write_finished(two, tmp_path)
    one = plan_in(tmp_path, sessions=1)
    assert [task.session for task in read(path, one, MACHINE, "append").remaining] == [2, 2]
    # a file that was begun with more sessions is resumed to the end, whatever the config says
    assert read(path, one, MACHINE, "resume").remaining == ()
    four = read(path, plan_in(tmp_path, sessions=4), MACHINE, "resume")
    assert [task.session for task in four.remaining] == [2, 2, 3, 3]
    path.write_bytes(path.read_bytes()[: sizes[-2]])
    counts = "3 of 4 measurements (2 cases in 2 sessions) are finished"
    assert f"{counts}; finish the run with --resume" in refused(path, one, how="append")


def test_refuses_rows_of_changed_code(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    path, _ = write_finished(plan, tmp_path)
    past = read(path, plan, MACHINE, "append")
    new = [dataclasses.replace(row, session=2) for row in rows_of(plan)[0]]
    past.agree(new)
    with pytest.raises(ResultsError, match="the definition of softmax has changed"):
        past.agree([dataclasses.replace(new[0], case_hash="other")])
    changed = dataclasses.replace(SOFTMAX, providers=PROVIDERS | {"torch-native": ProviderInfo(source_hash="other")})
    plan = dataclasses.replace(plan, catalog=dataclasses.replace(CATALOG, operators={"softmax": changed}))
    assert "the code of torch-native has changed" in refused(path, plan)
