"""Every provider is right on edge inputs; in every mode and dtype, on random inputs; and the kernels of kbench on tensors that
begin anywhere.

Triton kernels run in Triton's interpreter where there is no accelerator. Without torch-compile: it takes seconds per shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from judged_outputs import DEVICE, judged, random_inputs

from kbench.contract.origin import shipped
from kbench.contract.provider import Unsupported
from kbench.contract.registry import operator
from kbench.measure.correctness.check import accuracy
from kbench.measure.correctness.common_edges import common_edges, edge_names
from kbench.measure.edge_cases import check_edges
from kbench.measure.machine.device import Device
from kbench.measure.steps import Steps
from kbench.measure.tampering.guard import Guard
from kbench.protocol import CheckRequest, Configuration, Measure, Rows, Task
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import EdgeInput, Status

pytest.importorskip("triton")
pytestmark = [
    # numpy says so where a kernel works on NaN, or on the padding of a tile
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.slow,
]

PROVIDERS = [
    (name, provider.name)
    for name in shipped()
    for provider in operator(name).providers.values()
    if provider.name != "torch-compile" and not provider.unavailable(DEVICE.type)
]
SIZES = [(1, 1, 1), (3, 33, 3), (9, 130, 40)]
SIZES_OF = {
    "attention": [(1, 1, 1, 1, 8), (1, 2, 1, 33, 16), (1, 2, 2, 70, 40)],
    "attention_decode": [(1, 1, 1, 1, 8), (3, 4, 2, 33, 16), (2, 4, 1, 300, 40)],
    "attention_varlen": [(1, 1, 1, 1, 8), (3, 2, 1, 33, 16), (4, 4, 2, 70, 40)],
    "grouped_matmul": [(1, 1, 1, 1), (33, 3, 17, 5), (60, 4, 40, 80)],
}

OWN = [(name, provider) for name, provider in PROVIDERS if provider.startswith(("triton", "cuda"))]
"""The providers with kernels of kbench."""

every_provider = pytest.mark.parametrize("name, provider", PROVIDERS)


def modes(name: str) -> tuple[str, ...]:
    return tuple(operator(name).words.get("mode", ("forward",)))


def sizes_of(name: str) -> list[tuple[int, ...]]:
    return SIZES_OF.get(name, SIZES)


def case_of_sizes(name: str, dtype: str, sizes: Sequence[int], mode: str, **choices: str) -> Case:
    definition = operator(name)
    words = choices | ({"mode": mode} if "mode" in definition.words else {})
    return definition.case(dtype, **dict(zip(definition.axes, sizes, strict=False)), **words)


def cases(name: str) -> list[Case]:
    """In float16 and with other choices than the first, at one size: the arithmetic is the same. At other sizes in the last
    mode, full, which makes the calls of the others. In mode backward, with the first dtype."""
    definition = operator(name)
    middle = sizes_of(name)[1]
    plain = [
        case_of_sizes(name, dtype, sizes, mode)
        for sizes in sizes_of(name)
        for dtype in definition.dtypes
        for mode in (modes(name) if sizes == middle else modes(name)[-1:])
        if sizes == middle or dtype != "float16"
        if mode != "backward" or dtype == definition.dtypes[0]
    ]
    return plain + [
        case_of_sizes(name, "bfloat16", middle, mode, **{choice: word})
        for choice, words in definition.choices.items()
        for word in words[1:]
        for mode in modes(name)[::2]
    ]


@every_provider
def test_right_in_every_mode_and_dtype(name: str, provider: str) -> None:
    faults, judgements = {}, 0
    for case in cases(name):
        if not operator(name).providers[provider].declines(case):
            try:
                wrong = judged(case, provider)
            except Unsupported:
                continue
            judgements += 1
            if wrong:
                faults[case.label] = wrong
    assert faults == {} and judgements


@pytest.mark.parametrize("name", [name for name in shipped() if name not in SIZES_OF])
def test_axes_that_are_equal_by_chance_do_not_confuse_a_check(name: str) -> None:
    for mode in modes(name):
        for size in (2, 17):
            assert judged(case_of_sizes(name, "float32", [size] * 3, mode), "torch-native") is None, (mode, size)


@every_provider
def test_right_on_edge_inputs(name: str, provider: str) -> None:
    """The operator's own edge inputs, and the common ones that it has."""
    for mode in modes(name)[:2]:  # mode full makes the calls of both others
        rows = outcomes(case_of_sizes(name, "float32", sizes_of(name)[1], mode), provider)
        assert {edge: row for edge, row in rows.items() if row.status.failed} == {}, mode


@pytest.mark.parametrize("name, provider", OWN)
def test_tensors_of_16_bits_that_begin_at_an_odd_element_are_right(name: str, provider: str) -> None:
    """All tensors, and each alone. Rows of whole vectors then begin in the middle of 4 bytes, which kernels load at once. In
    the last mode, full, which makes the calls of the others, if the provider has it."""
    chosen = operator(name).providers[provider]
    mode = modes(name)[-1 if chosen.backward else 0]
    case = case_of_sizes(name, "bfloat16", SIZES_OF[name][-1] if name in SIZES_OF else (5, 64, 32), mode)
    assert not chosen.declines(case)
    inputs = random_inputs(case)
    moved = common_edges(operator(name), mode)[EdgeInput.ODD_OFFSET].inputs(case, inputs)
    assert moved
    each_alone = [[*inputs[:i], moved[i], *inputs[i + 1 :]] for i in range(len(inputs))]
    for tensors in (moved, *each_alone):
        assert judged(case, provider, tensors) is None


def outcomes(case: Case, provider: str, skip: tuple[tuple[str, str], ...] = ()) -> dict[str, Row]:
    """What `kbench check` finds, by edge input."""
    rows: dict[str, Row] = {}

    def note(event: object) -> None:
        if isinstance(event, Rows):
            rows.update({row.edge: row for row in event.rows})

    task = Task(case, (Configuration(provider, {}),), None, Measure(), 0)
    check_edges(operator(case.operator), CheckRequest(task, skip), Steps(Device(), note, Guard()))
    return rows


@pytest.mark.skipif(DEVICE.type != "cpu", reason="about the host")
def test_layernorm_in_torch_declines_16_bit_gradients_on_the_host() -> None:
    """torch adds up the gradients of weight and bias in 16 bits there: after 30,000 rows they have no right digit."""
    case = operator("layernorm").case("bfloat16", M=8, N=16, mode="backward")
    [row] = outcomes(case, "torch-native").values()
    assert row.status is Status.UNSUPPORTED and "adds up the gradients of weight and bias" in row.reason


def test_the_gradient_of_a_weight_is_deterministic() -> None:
    case = operator("rmsnorm").case(M=64, N=40, mode="backward")
    skip = tuple(("triton", name) for name in edge_names(operator("rmsnorm"), "backward"))
    [row] = outcomes(case, "triton", skip=skip).values()
    assert row.status is Status.CHECKED and row.deterministic


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize("provider", ["torch-native", "torch-eager", "triton"])
def test_cross_entropy_smooths_the_labels(provider: str, mode: str) -> None:
    case = operator("cross_entropy").case("float32", M=4, V=33, smoothing=0.1, mode=mode)
    assert judged(case, provider) is None
    plain = operator("cross_entropy").providers[provider].function
    x, labels = torch.randn(4, 33, device=DEVICE), torch.arange(4, device=DEVICE)
    assert not torch.equal(plain(x, labels, smoothing=0.1), plain(x, labels, smoothing=0.0))


def test_cross_entropy_without_a_block_of_the_vocabulary_is_wrong() -> None:
    """The tolerance is narrow enough even at the longest vocabularies, where the loss is off by 0.001 of 12."""
    definition = operator("cross_entropy")
    case = definition.case("float32", M=1, V=256000)
    x, labels = random_inputs(case)
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
    rounded, scale = operator("quantize_fp8").providers["triton"].function(x)
    assert scale.item() == 1.0  # the largest number is 448
    assert torch.equal(rounded.view(torch.uint8), x.to(torch.float8_e4m3fn).view(torch.uint8))


@pytest.mark.parametrize("factor", [1.0, 1.05, 2.0])
def test_quantize_fp8_divides_by_the_scale_that_it_returns(factor: float) -> None:
    definition = operator("quantize_fp8")
    case = definition.case("float32", M=4, N=500)
    (x,) = random_inputs(case)
    scale = x.abs().amax(-1) / 448
    y = (x / (scale * factor)[:, None]).to(torch.float8_e4m3fn)
    wrong = accuracy(definition, case, [x], y, scale).wrong
    assert wrong is None if factor == 1.0 else str(wrong).startswith("y: ")
