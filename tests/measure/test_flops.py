"""TFLOP/s, the compute ceiling and the share of the speed of light, and operators that miscount their operations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from common import PLUGINS, register_plugin
from in_process import MadeUpInstruments

from kbench.contract.registry import operator
from kbench.measure import ceilings
from kbench.measure.case import CaseRun
from kbench.measure.correctness.operator_trial import attempt
from kbench.measure.machine.device import Device
from kbench.protocol import Configuration, Measure
from kbench.results.case import Case
from kbench.results.row import Row

pytestmark = pytest.mark.slow  # each test measures several cases


MISCOUNTS = {
    "negative": "flops returned -16384 on M=16 N=16 K=32 float32; it must return a number that is not negative",
    "raises": "flops fails on M=16 N=16 K=32 float32: AttributeError: case of product-raises has no axis 'size'",
    "text": "flops returned 'many' on",
    "nothing": "flops returned None on",
    "nan": "flops returned nan on",
    "infinite": "flops returned inf on",
}


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    register_plugin("flops.py")


def case(name: str, size: int = 16) -> Case:
    return Case(f"product-{name}", {"M": size, "N": size, "K": 2 * size}, "float32")


def rows(
    name: str, *, size: int = 16, ceiling_gbps: float | None = 10.0, ceiling_tflops: float | None = 0.05
) -> dict[str, Row]:
    """The rows of a case by provider, under ceilings that are made up."""
    return {row.provider: row for row in case_run(case(name, size), ceiling_gbps, ceiling_tflops).run()}


def case_run(measured: Case, ceiling_gbps: float | None = None, ceiling_tflops: float | None = None) -> CaseRun:
    return CaseRun(
        operator(measured.operator),
        measured,
        [Configuration("torch", {}), Configuration("fused", {})],
        baseline=0,
        settings=Measure(
            timer="do_bench", cache="warm", warmup_ms=0, rep_ms=1, rounds=1, timeout_s=60, build_timeout_s=60
        ),
        session=0,
        instruments=MadeUpInstruments(ceiling_gbps, ceiling_tflops),
        emit=lambda event: None,
    )


def test_where_the_memory_takes_longer_it_is_the_speed_of_light() -> None:
    for row in (
        rows("right", ceiling_tflops=1e6)["torch"],
        rows("zero")["torch"],
        rows("uncounted", ceiling_tflops=None)["torch"],
    ):
        assert row.gbps and row.sol == pytest.approx(row.gbps / 10.0)


def test_without_a_ceiling_that_it_needs_the_share_is_not_known() -> None:
    unknown = rows("right", ceiling_tflops=None)["torch"]
    assert unknown.tflops and unknown.sol is None and unknown.ceiling_tflops is None
    assert rows("right", ceiling_gbps=None)["torch"].sol is None
    assert rows("zero", ceiling_tflops=None)["torch"].sol is not None


def test_a_count_that_no_device_can_reach_is_suspect() -> None:
    assert "suspect" in rows("exaggerated", size=64, ceiling_tflops=1.0)["torch"].flags
    assert "suspect" not in rows("right", size=64, ceiling_tflops=1.0)["torch"].flags


def test_inputs_of_a_shorter_dtype_allow_faster_arithmetic() -> None:
    for name, dtype, shorter in (("int8", "bfloat16", True), ("right", "bfloat16", False)):
        assert case_run(replace(case(name), dtype=dtype)).has_shorter_inputs() is shorter


@pytest.mark.parametrize("name", MISCOUNTS)
def test_a_miscount_is_the_fault_of_the_operator(name: str) -> None:
    fault = attempt(operator(f"product-{name}"), case(name), Device(), seed=0)
    assert fault is not None
    assert fault.what.startswith(f"operator product-{name}: {MISCOUNTS[name]}")
    assert f"{PLUGINS / 'flops.py'}:" in fault.where
    assert all(row.status.value == "error" and name in row.reason for row in rows(name).values())


def test_an_integer_of_numpy_is_a_count() -> None:
    assert rows("numpy")["torch"].tflops


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_ceiling_is_the_best_product_and_does_not_take_long(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []

    def speeds(device: Device, kind: torch.dtype, form: ceilings.Form) -> list[float]:
        found = list(whole(device, kind, form))
        shapes.append(found)
        return found

    whole = ceilings._speeds
    monkeypatch.setattr(ceilings, "_speeds", speeds)
    device = Device()
    best = ceilings.ceiling_tflops(device, dtype)
    assert best == max(speed for found in shapes for speed in found) > 0
    assert all(shapes)


def test_a_dtype_that_torch_cannot_multiply_has_no_ceiling() -> None:
    assert ceilings.ceiling_tflops(Device(), "bool") is None
