"""Backward and in-place calls on an accelerator: both timers can time them, and cheats with streams are caught."""

from __future__ import annotations

import pytest
import torch
from in_process import matrices, measured, said
from torch import Tensor

pytestmark = pytest.mark.gpu

SIZES = {"M": 512, "N": 1024}

product = matrices("device-product", lambda a, b: a * b, "a b", rows="M", gradients=("a", "b"))


@product.provider("autograd")
def forward(a: Tensor, b: Tensor) -> Tensor:
    return a * b


def backward(dy: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return dy * b, dy * a


product.provider("kernel")(forward)
product.backward("kernel")(backward)


product.provider("asks-the-host")(forward)


@product.backward("asks-the-host")
def asks_the_host(dy: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return backward(dy, a, b) if dy.sum().item() < 1e30 else (a, b)


@pytest.mark.parametrize(
    ("mode", "cache", "timer"),
    [
        ("backward", "warm", "do_bench"),
        ("full", "cold", "do_bench"),
        ("full", "warm", "graph"),
        ("backward", "cold", "graph"),
    ],
)
def test_gradients_are_timed_by_both_timers(mode: str, cache: str, timer: str) -> None:
    rows = measured(product, ["autograd", "kernel"], mode=mode, timer=timer, cache=cache, **SIZES)
    assert said(rows["autograd"]) == "ok"
    assert said(rows["kernel"]).startswith("ok runs the same torch operators as the baseline autograd: aten.mul.Tensor")
    assert {row.timer for row in rows.values()} == {timer}


def test_a_backward_that_cannot_be_captured_is_unsupported() -> None:
    rows = measured(product, ["autograd", "asks-the-host"], mode="backward", timer="graph", **SIZES)
    assert said(rows["autograd"]) == "ok"
    assert said(rows["asks-the-host"]).startswith("unsupported cannot be captured in a CUDA graph")


def test_a_kernel_on_the_default_stream_is_no_part_of_a_graph() -> None:
    double = matrices("device-double", lambda x: x * 2, rows="M")
    double.provider("torch")(lambda x: x * 2)

    @double.provider("default-stream")
    def on_the_default_stream(x: Tensor) -> Tensor:
        with torch.cuda.stream(torch.cuda.default_stream()):  # as `<<<grid, block>>>` without a stream
            return x * 2

    assert said(measured(double, **SIZES)["default-stream"]).startswith("ok")
    rows = measured(double, timer="graph", **SIZES)
    assert said(rows["torch"]) == "ok"
    assert said(rows["default-stream"]).startswith("unsupported launches nothing on torch's current stream")
