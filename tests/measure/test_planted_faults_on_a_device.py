"""`kbench why` on kernels with a fault that was put there on purpose: the first sentence names it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import case_run, matrices
from making import write_rows
from torch import Tensor

from kbench.execute.writer import KernelsWriter
from kbench.measure.launches.recorder import LaunchRecorder
from kbench.measure.machine.device import Device
from kbench.protocol import CallRecorded
from kbench.why.facts import find_facts
from kbench.why.reasons import find_reasons

pytestmark = pytest.mark.gpu

SOURCE = """
extern "C" __global__ void straight(const float4* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 4) { float4 v = x[i]; v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2; y[i] = v; }
}
extern "C" __global__ void uncoalesced(const float* x, float* y, int n) {
  // Neighbouring threads access addresses that are 4096 elements apart.
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x, rows = n / 4096;
  long place = (i % rows) * 4096 + i / rows;
  if (i < n) y[place] = x[place] * 2;
}
extern "C" __global__ void spilled(const float* x, float* y, int n) {
  float kept[128];
  long start = (blockIdx.x * (long)blockDim.x + threadIdx.x) * 16;
  for (int k = 0; k < 128; ++k) kept[(k * 7 + (int)start) & 127] = x[start + (k & 15)];
  for (int k = 0; k < 16; ++k) y[start + k] = kept[(k * 7 + (int)start) & 127] * 2;
}
extern "C" __global__ void crowded(const float* x, float* y, int n) {
  __shared__ float room[12000];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  room[threadIdx.x * 300] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = room[threadIdx.x * 300] * 2;
}
"""


def compiled(name: str) -> Any:
    if not hasattr(torch.cuda, "_compile_kernel") or torch.version.hip:
        pytest.skip("needs torch with _compile_kernel, on an NVIDIA device")
    return torch.cuda._compile_kernel(SOURCE, name)


def launched(name: str, per_thread: int, threads: int) -> Any:
    kernel = compiled(name)

    def call(x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        kernel((-(-x.numel() // (per_thread * threads)), 1, 1), (threads, 1, 1), [x, y, x.numel()])
        return y

    return call


def in_twenty(x: Tensor) -> Tensor:
    y = x * 2
    for _ in range(19):
        y = y + 0
    return y


def slowly_launched(x: Tensor) -> Tensor:
    time.sleep(2e-3)
    return x * 2


PLANTED = {
    "straight": (lambda: launched("straight", 4, 256), 8192, "at-speed"),
    "uncoalesced": (lambda: launched("uncoalesced", 1, 256), 8192, "inside-the-kernel"),
    "spilled": (lambda: launched("spilled", 16, 128), 8192, "spills"),
    "crowded": (lambda: launched("crowded", 1, 32), 8192, "low-occupancy"),
    "in-twenty": (lambda: in_twenty, 1024, "many-kernels"),
    "slowly-launched": (lambda: slowly_launched, 8192, "host-bound"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_first_sentence_names_what_was_planted(no_operators: None, tmp_path: Path, name: str) -> None:
    make, rows, kind = PLANTED[name]
    recorder = LaunchRecorder(Device())
    if not recorder.works:
        pytest.skip(recorder.missing)
    operator = matrices("double", lambda x: x * 2, rows="M")
    operator.provider(name)(make())
    sent: list[Any] = []
    run = case_run(operator, [name], cache="cold", rounds=3, rep_ms=20, M=rows, N=4096)
    run.recorder, run.steps.emit = recorder, sent.append
    measured = run.run()
    path = write_rows(tmp_path / "double.csv", measured)
    KernelsWriter(path, keep=False).write([each for each in sent if isinstance(each, CallRecorded)], Device().name)
    [facts], _ = find_facts(path, f"provider={name}")
    found = find_reasons(facts)
    assert found[0].kind == kind, [(each.kind, round(each.weight, 2), each.sentence) for each in found]
