"""The recorded kernels of real providers are those that torch.profiler and cuobjdump report."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import kbench
from kbench.launches.launched_call import MACHINE_CODE, LaunchedCall
from kbench.measure.correctness.call import Preparer
from kbench.measure.correctness.definition import Definition
from kbench.measure.launches.graph_nodes import NAME_CHARACTERS
from kbench.measure.launches.recorder import LaunchRecorder, Recorded
from kbench.measure.machine.device import Device
from kbench.text.printable import printable

pytestmark = pytest.mark.gpu

PROVIDERS = (
    "torch-eager",
    "torch-native",
    "torch-jit",
    "torch-compile",
    "triton",
    "cuda-naive",
    "cuda",
    "liger",
    "quack",
)

PROFILED_REGISTERS = 16
"""The profiler reported 16 registers for the one kernel (of torch.jit, on an H200) for which the driver reports fewer: 13."""


@pytest.fixture(scope="module")
def recorder() -> LaunchRecorder:
    found = LaunchRecorder(Device())
    if not found.works:
        pytest.skip("it records on NVIDIA devices only")
    return found


def softmax(provider: str, N: int = 1024) -> Any:
    """A function that prepares a call of a provider on 64 rows. It was called three times."""
    operator = kbench.operator("softmax")
    case = operator.case("float32", M=64, N=N)
    if reason := operator.providers[provider].unavailable("cuda"):
        pytest.skip(reason)
    x = torch.randn(64, N, device="cuda")
    preparer = Preparer(Definition(operator, case), operator.providers[provider], {})
    for _ in range(3):  # torch.jit compiles at the second call
        preparer([x], [(64, N)]).run()
    torch.cuda.synchronize()
    return lambda: preparer([x], [(64, N)]).run


def profiled(call: Callable[[], Any], file: Path) -> Counter[tuple[Any, ...]]:
    """The kernels of a call as torch.profiler writes them: name, grid, block, registers of a thread, bytes of shared memory."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    profile.export_chrome_trace(str(file))
    events = json.loads(file.read_text())["traceEvents"]
    return Counter(
        (
            printable(each["name"], NAME_CHARACTERS),
            tuple(each["args"]["grid"]),
            tuple(each["args"]["block"]),
            each["args"]["registers per thread"],
            each["args"]["shared memory"],
        )
        for each in events
        if each.get("cat") == "kernel"
    )


def listed(call: LaunchedCall) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for each in call.launches:
        shared = each.kernel.static_shared_bytes + each.dynamic_shared_bytes
        registers = max(each.kernel.registers, PROFILED_REGISTERS)
        found[each.kernel.name, each.grid, each.block, registers, shared] += each.times
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_launches_what_the_profiler_sees(recorder: LaunchRecorder, tmp_path: Path, provider: str) -> None:
    prepare = softmax(provider)
    recorded = recorder.record(prepare)
    assert recorded.launched, recorded.fault
    seen = profiled(prepare(), tmp_path / "trace.json")
    assert listed(recorded.launched) == seen
    if provider == "triton":
        assert {each.kernel.origin for each in recorded.launched.launches} == {MACHINE_CODE}
    assert recorded.peak_bytes is not None and recorded.peak_bytes >= 64 * 1024 * 4, "the output at least"


def of(recorder: LaunchRecorder, run: Any) -> Recorded:
    return recorder.record(lambda: run)


def test_a_call_that_waits_for_the_device_cannot_be_captured_and_the_next_one_can(recorder: LaunchRecorder) -> None:
    x = torch.ones(1000, device="cuda")
    stream = torch.cuda.current_stream()
    waiting = of(recorder, lambda: x * x.sum().item())
    assert waiting.launched is None and waiting.fault.startswith("the call cannot be captured in a CUDA graph: ")
    assert waiting.peak_bytes
    assert torch.cuda.current_stream() == stream
    after = of(recorder, lambda: x * 2)
    assert after.launched and after.launched.kernels == 1, after.fault


def test_captures_that_fail_leave_no_memory_behind(recorder: LaunchRecorder) -> None:
    def waiting() -> float:
        return (torch.ones(2**28, device="cuda") * 2)[0].item()

    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(3):
        assert of(recorder, waiting).launched is None
        assert of(recorder, lambda: torch.ones(2**28, device="cuda") * 2).launched
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before < 2**28


def test_a_backward_pass_is_captured_on_the_stream_of_its_forward_pass(recorder: LaunchRecorder) -> None:
    def prepare() -> Any:
        x = torch.randn(64, 64, device="cuda", requires_grad=True)
        y = torch.softmax(x, -1)
        return lambda: torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)

    call = recorder.record(prepare).launched
    assert call and any("softmax" in each.kernel.name and "ackward" in each.kernel.name for each in call.launches)
