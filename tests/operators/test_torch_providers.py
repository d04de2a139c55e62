"""The torch providers: what is compiled or scripted is fused, computes in float32, and outlasts a sweep."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from judged_outputs import judge, normal, providers

from kbench.operators.gelu.providers_torch import NAIVE
from kbench.operators.softmax.providers_torch import naive

# torch.jit.script is deprecated, and one of the things compared
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@pytest.mark.slow
def test_compile_starts_no_process():
    """On a GPU Inductor wakes up a pool of compile processes; here the test does."""
    from torch._inductor import config as inductor_config  # importing it takes seconds, which other test processes save
    from torch._inductor.async_compile import AsyncCompile

    before = children()
    with inductor_config.patch({"compile_threads": 2, "cpp.vec_isa_ok": False}):  # scalar code compiles faster
        assert judge("softmax", "torch-compile", normal(5, 65, dtype=torch.bfloat16)) is None
        AsyncCompile.wakeup()
    assert children() == before


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op, _ in providers("torch-compile")])
def test_compile_outlasts_a_sweep(monkeypatch, op):
    """Dynamo falls back to eager when one code object has been compiled for eight shapes; kbench's sweeps have a hundred.
    Inductor is left out: it is Dynamo that counts."""
    compiled = []
    monkeypatch.setattr(
        "torch._inductor.compile_fx.compile_fx", lambda graph, *_, **__: compiled.append(graph) or graph.forward
    )
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for n in range(3, 15):
            assert judge(op, "torch-compile", normal(2, n)) is None
    assert len(compiled) == 12


@pytest.mark.parametrize("function", [naive, *NAIVE.values()])
def test_what_is_fused_computes_in_float32(function):
    """Rounded once: no element of a 16-bit result is more than half a unit, and float32's own error, off."""
    x = normal(4, 1000, dtype=torch.float16)
    assert torch.equal(function(x), function(x.float()).half())


def children() -> set[str]:
    """Processes that this one has started and that have not ended."""
    lists = Path("/proc/self/task").glob("*/children")
    started = {pid for file in lists for pid in file.read_text().split()}
    return started - {str(os.getpid())}
