"""The torch providers against the fp64 reference, and that each really is what it is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from judging import case_of, judge, normal, providers

from kbench.contract.registry import operator
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device
from kbench.operators.gelu.providers_torch import NAIVE
from kbench.operators.softmax.providers_torch import naive

QUICK = providers("torch-", "torch-compile")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

# torch.jit.script is deprecated, and one of the things compared
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 127, 1000, 65537])
@pytest.mark.parametrize("op, name", QUICK)
def test_every_length_and_dtype(op, name, n, dtype):
    if reason := operator(op).providers[name].declines(case_of(op, 3, n, dtype)):
        assert name == "torch-eager" and dtype != torch.float32 and "rounds" in reason
        return
    assert judge(op, name, normal(3, n, dtype=dtype)) is None


@pytest.mark.parametrize("op, name", QUICK)
def test_every_edge_input(op, name):
    """One function for all of them, as `kbench check` has it: scripted code must not depend on what it saw first."""
    for edge, make in operator(op).edges.items():
        (x,) = make(case_of(op, 5, 33, torch.float32), normal(5, 33))
        assert judge(op, name, x) is None, edge


@pytest.mark.parametrize("name", ["torch-native", "torch-jit"])
def test_gelu_follows_approximate(name):
    x = torch.linspace(-6, 6, 1000).reshape(10, 100)
    assert judge("gelu", name, x, approximate="none") is None
    assert judge("gelu", name, x, approximate="tanh") is None


def test_eager_states_what_it_moves():
    """5 MN + 2M elements read and 3 MN + 2M written, at 4 bytes."""
    moved = operator("softmax").providers["torch-eager"].moved_bytes
    assert moved is not None
    assert moved(case_of("softmax", 10, 100, torch.float32)) == ((5000 + 20) + (3000 + 20)) * 4


@pytest.mark.parametrize("op", [op for op, name in QUICK if name == "torch-jit"])
def test_jit_is_scripted_afresh_for_every_case(op):
    provider = operator(op).providers["torch-jit"]
    first, second = (provider.bind(case_of(op, 4, n, torch.float32), {}) for n in (8, 9))
    assert isinstance(first, torch.jit.ScriptFunction)
    assert first is not second
    assert "aten::exp" in str(first.graph) or "aten::tanh" in str(first.graph)


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op, _ in providers("torch-compile")])
def test_compile_starts_no_process(op):
    """On a GPU Inductor wakes up a pool of compile processes; here the test does."""
    from torch._inductor import config as inductor_config  # importing it takes seconds, which other test processes save
    from torch._inductor.async_compile import AsyncCompile

    before = children()
    with inductor_config.patch(compile_threads=2):
        assert judge(op, "torch-compile", normal(5, 65, dtype=torch.bfloat16)) is None
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


@pytest.mark.slow
def test_compile_takes_every_edge_input_in_one_case(monkeypatch):
    definition = operator("softmax")
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", lambda graph, *_, **__: graph.forward)
    case = case_of("softmax", 5, 33, torch.float32)
    function = definition.providers["torch-compile"].bind(case, {})
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for make in definition.edges.values():
            (x,) = make(case, normal(5, 33))
            torch.testing.assert_close(function(x), torch.softmax(x, -1), equal_nan=True)


@pytest.mark.parametrize("function", [naive, *NAIVE.values()])
def test_what_is_fused_computes_in_float32(function):
    """Rounded once: no element of a 16-bit result is more than half a unit, and float32's own error, off."""
    x = normal(4, 1000, dtype=torch.float16)
    assert torch.equal(function(x), function(x.float()).half())


@pytest.mark.parametrize("n, declined", [(65536, False), (65537, True)])
def test_liger_declines_long_rows(n, declined):
    reason = operator("softmax").providers["liger"].declines(case_of("softmax", 4, n, torch.float32))
    assert (reason is not None) is declined


@pytest.mark.parametrize(
    "n, dtype, declined",
    [
        (1004, torch.float32, False),
        (1002, torch.float32, True),
        (1000, torch.bfloat16, False),
        (1004, torch.bfloat16, True),
    ],
)
def test_quack_declines_rows_that_are_no_whole_vectors(n, dtype, declined):
    reason = operator("softmax").providers["quack"].declines(case_of("softmax", 4, n, dtype))
    assert (reason is not None) is declined


def test_liger_against_the_reference():
    pytest.importorskip("liger_kernel")
    pytest.importorskip("triton")
    assert judge("softmax", "liger", normal(5, 1000)) is None


@pytest.mark.gpu
def test_quack_against_the_reference():
    pytest.importorskip("quack")
    assert judge("softmax", "quack", normal(5, 1000)) is None


def children() -> set[str]:
    """Processes that this one has started and that have not ended."""
    lists = Path("/proc/self/task").glob("*/children")
    found = {pid for file in lists for pid in file.read_text().split()}
    return found - {str(os.getpid())}


@pytest.mark.slow
@pytest.mark.parametrize("M, N", [(33, 50257), (40, 32000)])
def test_gradients_of_softmax_in_float16_may_come_from_values_that_are_evenly_spaced(M: int, N: int) -> None:
    """Below 6e-5, float16 holds the saved output with one error for all sizes. torch's own gradients are right there."""
    case = operator("softmax").case("float16", M=M, N=N, mode="backward")
    definition, device = Definition(operator("softmax"), case), Device()
    inputs = Inputs(definition, device, 0).draw("random")
    stage = stage_of(definition, operator("softmax").providers["torch-native"], {})
    found = run_checked(Expected(definition, [x.clone() for x in inputs]), stage, inputs, device)
    assert found and found.wrong is None
