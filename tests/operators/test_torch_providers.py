"""The torch providers: what is compiled or scripted is fused, computes in float32, and outlasts a sweep."""

from __future__ import annotations

import pytest
import torch
from judged_outputs import judge, normal, providers

from kbench.operators.gelu.operator import NAIVE
from kbench.operators.softmax.operator import naive

# torch.jit.script is deprecated, and one of the things compared
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op, _ in providers("torch-compile")])
def test_compile_outlasts_a_sweep_and_starts_no_process(monkeypatch, op):
    """Dynamo falls back to eager when one code object has been compiled for eight shapes; kbench's sweeps have a hundred.
    Inductor is left out: it is Dynamo that counts. With one thread it has no pool of processes."""
    from torch._inductor import config  # importing it takes seconds, which other test processes save

    threads = []

    def compile_fx(graph, *_, **__):
        threads.append(config.compile_threads)
        return graph.forward

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    with config.patch(compile_threads=2), torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for n in range(3, 15):
            assert judge(op, "torch-compile", normal(2, n)) is None
    assert threads == [1] * 12


@pytest.mark.parametrize("function", [naive, *NAIVE.values()])
def test_what_is_fused_computes_in_float32(function):
    """Rounded once: no element of a 16-bit result is more than half a unit, and float32's own error, off."""
    x = normal(4, 1000, dtype=torch.float16)
    assert torch.equal(function(x), function(x.float()).half())
