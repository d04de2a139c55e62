"""Every provider is right in every mode and dtype, on random inputs and on edge inputs. softmax and GELU have their own tests.

Triton kernels run in Triton's interpreter where there is no accelerator. Without torch-compile: it takes seconds per shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from judging import DEVICE

from kbench.contract.origin import shipped
from kbench.contract.provider import Unsupported
from kbench.contract.registry import operator
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import accuracy, run_checked
from kbench.measure.correctness.common_edges import edge_names
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.elements import Accuracy
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.edge_cases import check_edges
from kbench.measure.machine.device import Device
from kbench.protocol import Configuration, Rows
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Status

pytest.importorskip("triton")
pytestmark = [
    # numpy says so where a kernel works on NaN, or on the padding of a tile
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.slow,
]

OPERATORS = [name for name in shipped() if name not in ("gelu", "softmax")]
PROVIDERS = [
    (name, provider.name)
    for name in OPERATORS
    for provider in operator(name).providers.values()
    if provider.name != "torch-compile" and not provider.unavailable(DEVICE.type)
]
SIZES = [(1, 1, 1), (3, 33, 3), (9, 130, 40)]


def judge(case: Case, provider: str, **params: Any) -> Accuracy | None:
    """What the check finds; None if the provider declines the case."""
    definition, device = Definition(operator(case.operator), case), Device()
    chosen = operator(case.operator).providers[provider]
    if chosen.declines(case):
        return None
    inputs = Inputs(definition, device, 0).draw("random")
    try:
        stage = stage_of(definition, chosen, params)
        return run_checked(Expected(definition, [x.clone() for x in inputs]), stage, inputs, device)
    except Unsupported:
        return None


def cases(name: str) -> list[Case]:
    definition = operator(name)
    weights = ["float32"] if "weight_dtype" in definition.choices else []
    return [
        definition.case("bfloat16", M=3, N=33, mode=mode, weight_dtype=weight)
        for weight in weights
        for mode in definition.words["mode"]
    ] + [
        definition.case(dtype, **dict(zip(definition.axes, sizes, strict=False)), **({"mode": mode} if mode else {}))
        for sizes in SIZES
        for dtype in definition.dtypes
        for mode in definition.words.get("mode", ("",))
        if dtype != "float16" or sizes == SIZES[1]  # its arithmetic is that of bfloat16
    ]


@pytest.mark.parametrize("name, provider", PROVIDERS)
def test_right_in_every_mode_and_dtype(name: str, provider: str) -> None:
    found = {case.label: judge(case, provider) for case in cases(name)}
    assert {label: each.wrong for label, each in found.items() if each and each.wrong} == {}
    assert any(found.values())


@pytest.mark.parametrize("name, provider", PROVIDERS)
def test_right_on_edge_inputs(name: str, provider: str) -> None:
    """The operator's own edge inputs, or the common ones if it has none."""
    definition = operator(name)
    for mode in definition.words.get("mode", ("",))[:2]:  # mode full makes the calls of both others
        words = {"mode": mode} if mode else {}
        case = definition.case("float32", **dict(zip(definition.axes, SIZES[1], strict=False)), **words)
        found = outcomes(case, provider)
        assert {edge: each for edge, each in found.items() if each.status.failed} == {}, mode


def outcomes(case: Case, provider: str, skip: Sequence[tuple[str, str]] = ()) -> dict[str, Row]:
    """What `kbench check` finds, by edge input."""
    found: dict[str, Row] = {}

    def note(event: object) -> None:
        if isinstance(event, Rows):
            found.update({row.edge: row for row in event.rows})

    run = [Configuration(provider, {})]
    check_edges(operator(case.operator), case, run, skip=skip, seed=0, build_timeout_s=60, device=Device(), emit=note)
    return found


@pytest.mark.skipif(DEVICE.type != "cpu", reason="about the host")
def test_layernorm_in_torch_declines_16_bit_gradients_on_the_host() -> None:
    """torch adds up the gradients of weight and bias in 16 bits there: after 30,000 rows they have no right digit."""
    case = operator("layernorm").case("bfloat16", M=8, N=16, mode="backward")
    [found] = outcomes(case, "torch-native").values()
    assert found.status is Status.UNSUPPORTED and "adds up the gradients of weight and bias" in found.reason


def test_the_gradient_of_a_weight_is_deterministic() -> None:
    case = operator("rmsnorm").case(M=64, N=40, mode="backward")
    [found] = outcomes(
        case, "triton", skip=[("triton", name) for name in edge_names(operator("rmsnorm"), "backward")]
    ).values()
    assert found.status is Status.CHECKED and found.deterministic


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize("provider", ["torch-native", "torch-eager", "triton"])
def test_cross_entropy_smooths_the_labels(provider: str, mode: str) -> None:
    case = operator("cross_entropy").case("float32", M=4, V=33, smoothing=0.1, mode=mode)
    found = judge(case, provider)
    assert found and found.wrong is None
    plain = operator("cross_entropy").providers[provider].function
    x, labels = torch.randn(4, 33, device=DEVICE), torch.arange(4, device=DEVICE)
    assert not torch.equal(plain(x, labels, smoothing=0.1), plain(x, labels, smoothing=0.0))


def test_cross_entropy_of_a_row_that_begins_with_blocks_of_minus_infinity() -> None:
    x = torch.randn(2, 64, device=DEVICE)
    x[:, :40] = -torch.inf
    labels = torch.tensor([63, 40], device=DEVICE)
    found = operator("cross_entropy").providers["triton"].function(x, labels, smoothing=0.0)
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(x, labels, reduction="none"))


def test_cross_entropy_without_a_block_of_the_vocabulary_is_wrong() -> None:
    """The tolerance is narrow enough even at the longest vocabularies, where the loss is off by 0.001 of 12."""
    definition = operator("cross_entropy")
    case = definition.case("float32", M=2, V=256000)
    x, labels = Inputs(Definition(definition, case), Device(), 0).draw("random")
    right = torch.nn.functional.cross_entropy(x.double(), labels, reduction="none").float()
    short = right - (x.double().logsumexp(-1) - x[:, :-256].double().logsumexp(-1)).float()
    assert accuracy(definition, case, [x, labels], right).wrong is None
    assert "every element wrong" in str(accuracy(definition, case, [x, labels], short).wrong)


def test_quantize_fp8_rounds_as_torch_does() -> None:
    """Every number of float8_e4m3fn, every midpoint between two of them, and the numbers beside each midpoint."""
    numbers = torch.arange(0x7F).to(torch.uint8).view(torch.float8_e4m3fn).float()
    midpoints = (numbers[1:] + numbers[:-1]) / 2
    beside = [torch.nextafter(midpoints, midpoints * factor) for factor in (0.0, 2.0)]
    x = torch.cat([numbers, midpoints, *beside])
    x = torch.cat([x, -x])[None].to(DEVICE)
    found, scale = operator("quantize_fp8").providers["triton"].function(x)
    assert scale.item() == 1.0  # the largest number is 448
    assert torch.equal(found.view(torch.uint8), x.to(torch.float8_e4m3fn).view(torch.uint8))


@pytest.mark.parametrize("factor", [1.0, 1.05, 2.0])
def test_quantize_fp8_divides_by_the_scale_that_it_returns(factor: float) -> None:
    definition = operator("quantize_fp8")
    case = definition.case("float32", M=4, N=500)
    (x,) = Inputs(Definition(definition, case), Device(), 0).draw("random")
    scale = x.abs().amax(-1) / 448
    y = (x / (scale * factor)[:, None]).to(torch.float8_e4m3fn)
    wrong = accuracy(definition, case, [x], y, scale).wrong
    assert wrong is None if factor == 1.0 else str(wrong).startswith("y: ")


def test_matmul_counts_the_products_of_each_mode() -> None:
    flops = operator("matmul").flops
    assert flops
    counted = [flops(operator("matmul").case(M=2, N=3, K=5, mode=m)) for m in ("forward", "backward", "full")]
    assert counted == [60, 120, 180]
