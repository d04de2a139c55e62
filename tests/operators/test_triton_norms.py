"""The kernels of the norms in Triton, each chosen by hand on matrices that Triton's interpreter computes quickly."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from judging import DEVICE

from kbench.contract.registry import operator
from kbench.kernels.norms import launch
from kbench.kernels.norms.dispatch.launches import ALONE, LARGE_BYTES, Launches, Step
from kbench.kernels.norms.dispatch.once import REGIMES
from kbench.kernels.norms.dispatch.shared import Sharing, shared_rows_plan, sharing
from kbench.kernels.norms.dispatch.twice import WARPS_OF_TWO_INPUTS, read_twice
from kbench.kernels.triton_launch import Processors
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device

pytest.importorskip("triton")
pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # numpy, where a kernel works on the padding of a block

NORMS = ["rmsnorm", "add_rmsnorm", "layernorm"]
WARPS = {"num_warps": 1}


def tile(rows: int, block: int, pieces: int, M: int, N: int) -> dict[str, Any]:
    return {"ROWS": rows, "BLOCK": block, "PIECES": pieces, "FULL": M % rows == 0 and block * pieces == N}


def registers(M: int, N: int, rows: int = 1, block: int = 16, pieces: int = 3, early: int = 3, **more: Any) -> Launches:
    numbers = tile(rows, block, pieces, M, N) | {"EARLY": early, "PACKED": False, "WINDOW": False} | ALONE | more
    return Launches((Step("forward_kernels.registers", -(-M // rows), numbers, WARPS),))


def anywhere(M: int, N: int) -> Launches:
    """A row has up to 3 lanes of padding in vectors of 4 elements."""
    numbers = tile(1, 16, 4, M, N) | {"FULL": False, "EARLY": 0, "PACKED": False, "WINDOW": True} | ALONE
    return Launches((Step("forward_kernels.registers", M, numbers, WARPS),), window=True)


def twice(M: int, N: int) -> Launches:
    return read_twice(M, N, 16, 1, "evict_last", "evict_first")


def shared_rows(M: int, N: int, window: bool = False) -> Launches:
    """The interpreter runs one program after another, so all must publish before any waits."""
    numbers = tile(1, 8, 2, M, N) | {"EARLY": 2, "PACKED": False, "WINDOW": window, "WIDTH": 4, "TICKETS": True}
    numbers |= {"FULL": N == 48 and not window, "span": 16}
    steps = [Step("forward_kernels.registers", M * 3, numbers | {"PHASE": phase}, WARPS) for phase in (1, 2)]
    return Launches(tuple(steps), 3, teams=True, window=window)


FORWARD = {
    "a row": registers,
    "three rows, weights late": lambda M, N: registers(M, N, rows=4, early=0),
    "weights one block ahead": lambda M, N: registers(M, N, early=1),
    "a hint for the cache": lambda M, N: registers(M, N, early=0, POLICY="evict_last"),
    "one block": lambda M, N: registers(M, N, block=64, pieces=1, early=1),
    "twice": twice,
    "three programs a row": shared_rows,
    "rows anywhere": anywhere,
    "three programs a row, anywhere": lambda M, N: shared_rows(M, N, window=True),
}


def added(N: int, parts: int, sums: int) -> Step:
    return Step("backward_kernels.add_up", -(-N // 8) * sums, {"STEP": 4, "BLOCK": 8, "PDL": False}, WARPS)


def resident(M: int, N: int, sums: int, rows: int = 1, parts: int = 3, **changes: Any) -> Launches:
    tiles = -(-M // rows)
    numbers = {
        "tiles": tiles,
        "SUMS": False,
        "AHEAD": False,
        "STAGES": 1,
        "KEEP": True,
        "PDL": False,
        "PACKED": False,
    } | changes
    step = Step("backward_kernels.resident", parts, tile(rows, 16, 3, M, N) | numbers, WARPS)
    return Launches((step, added(N, parts, sums)) if parts > 1 else (step,), parts=parts)


def rows_and_columns(M: int, N: int, sums: int) -> Launches:
    strips = -(-N // 16)
    numbers = tile(2, 16, 3, M, N) | {"PACKED": False, "strips": strips, "STEP": 4, "WIDTH": 16}
    return Launches((Step("backward_kernels.rows_and_columns", strips + -(-M // 2), numbers, WARPS),))


def strips(M: int, N: int, sums: int) -> Launches:
    count, columns = -(-N // 24), -(-N // 16)
    first = Step("column_kernels.mean_slices", M * count, {"span": 24, "BLOCK": 16, "STAGES": 1}, WARPS)
    numbers = {"strips": columns, "chunk": 4, "STEP": 2, "WIDTH": 16, "SLICES": 4}
    parts = -(-M // 4)
    second = Step("column_kernels.strips", columns * parts, numbers, WARPS)
    return Launches((first, second, added(N, parts, sums)) if parts > 1 else (first, second), count, parts)


def resident_anywhere(M: int, N: int, sums: int) -> Launches:
    numbers = {"BLOCK": 16, "PIECES": 4, "STAGES": 1, "PACKED": False, "PDL": False}
    step = Step("window_kernels.resident_anywhere", 4, numbers, WARPS)
    return Launches((step, added(N, 4, sums)), parts=4, window=True)


BACKWARD = {
    "resident": resident,
    "rows ahead": lambda M, N, sums: resident(M, N, sums, AHEAD=True),
    "tiles of rows, weight loaded anew": lambda M, N, sums: resident(M, N, sums, rows=2, SUMS=True, KEEP=False),
    "tiles of rows ahead": lambda M, N, sums: resident(M, N, sums, rows=2, parts=2, AHEAD=True, KEEP=False),
    "one program": lambda M, N, sums: resident(M, N, sums, parts=1, rows=4),
    "rows and columns": rows_and_columns,
    "strips": strips,
    "rows anywhere": resident_anywhere,
}


def judged(
    name: str,
    M: int,
    N: int,
    mode: str,
    dtype: str = "float32",
    weight_dtype: str = "same",
    provider: str = "triton",
    mean: float = 0.0,
) -> str | None:
    """What is wrong with the outputs, or with the gradients, of a provider. `mean` is added to the elements of x."""
    case = operator(name).case(dtype, M=M, N=N, mode=mode, weight_dtype=weight_dtype)
    definition, device = Definition(operator(name), case), Device()
    inputs = Inputs(definition, device, 0).draw("random")
    inputs[0].add_(mean)
    stage = stage_of(definition, operator(name).providers[provider], {})
    found = run_checked(Expected(definition, [x.clone() for x in inputs]), stage, inputs, device)
    return found.wrong if found else "not judged"


SHAPES = [(name, 41) for name in NORMS] + [("layernorm", 48)]
"""Rows of single elements that leave lanes idle, and rows of whole vectors that fill their blocks."""


@pytest.mark.slow
@pytest.mark.parametrize("name, N", SHAPES)
@pytest.mark.parametrize("form", FORWARD)
def test_every_forward_kernel(form: str, name: str, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In mode full, the statistics that the kernel saves are right too."""
    monkeypatch.setattr(launch, "forward_plan", lambda M, N, *rest: FORWARD[form](M, N))
    monkeypatch.setattr(launch, "backward_plan", lambda M, N, *rest: rows_and_columns(M, N, rest[3]))
    assert judged(name, 5, N, "full") is None


@pytest.mark.parametrize("name, N", SHAPES)
@pytest.mark.parametrize("form", BACKWARD)
def test_every_backward_kernel(form: str, name: str, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "backward_plan", lambda M, N, *rest: BACKWARD[form](M, N, rest[3]))
    assert judged(name, 9, N, "backward") is None


@pytest.mark.parametrize("form", [{}, {"ROWS": 2}, {"ROWS": 4, "ONE_TILE": True}], ids=str)
@pytest.mark.parametrize(
    "name, N, dtype, weight_dtype",
    [
        *((name, 77, "float32", "same") for name in NORMS),
        ("rmsnorm", 96, "float32", "same"),
        ("layernorm", 80, "bfloat16", "same"),
        ("layernorm", 80, "bfloat16", "float32"),
        ("add_rmsnorm", 96, "float16", "same"),
    ],
)
def test_teams_share_rows_in_the_backward_pass(
    name: str, N: int, dtype: str, weight_dtype: str, form: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two teams of three programs, of which one has more tiles than the other, or one team that has all rows in one tile. In 16
    bits, programs load two elements at a time."""
    rows = form.get("ROWS", 1)
    M, teams = (3, 1) if form.get("ONE_TILE") else (3 * rows - rows // 2, 2)
    numbers = {
        "ROWS": 1,
        "tiles": -(-M // rows),
        "span": 32,
        "BLOCK": 16,
        "PIECES": 2,
        "FULL": N == 96 and M % rows == 0,
        "WIDTH": 4,
        "PAIRS": 1 if dtype == "float32" else 2,
        "PTX": False,
        "STAGES": 1,
        "ONE_TILE": False,
        "PDL": False,
    } | form
    steps = [Step("shared_rows.shared_rows", 3 * teams, numbers | {"PHASE": phase}, WARPS) for phase in (1, 2)]
    sums = added(N, teams, 2 if name == "layernorm" else 1)
    plan = Launches((*steps, sums) if teams > 1 else tuple(steps), 3, teams, teams=True)
    monkeypatch.setattr(launch, "backward_plan", lambda *_: plan)
    assert judged(name, M, N, "backward", dtype, weight_dtype) is None


@pytest.mark.parametrize("teams", [False, True])
def test_registers_are_limited_for_speed_only_where_that_was_measured(
    teams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that wait for each other have the limit on every device: otherwise they might not all fit on it."""
    options: list[dict[str, Any]] = []

    class Kernel:
        arg_names = ("M",)

        def __getitem__(self, grid: tuple[int]) -> Any:
            return lambda M, **given: options.append(given)

    from kbench.operators.rmsnorm.triton_mathematics import RMSNORM  # needs Triton

    plan = registers(2, 16)._replace(teams=teams, slices=2)
    plan = plan._replace(steps=(plan.steps[0]._replace(options={"num_warps": 4, "maxnreg": 64}),))
    monkeypatch.setattr(launch, "_kernel", lambda name: Kernel())
    x, ones = torch.randn(2, 16, device=DEVICE), torch.ones(16, device=DEVICE)
    for known in (True, False):
        monkeypatch.setattr(launch, "processors_of", lambda device, known=known: Processors(caps=known))
        launch.normalise(RMSNORM, (x,), (ones,), (torch.empty_like(x),), (), 1e-6, plan)
    limited = {"num_warps": 4, "maxnreg": 64}
    assert options == [limited, limited if teams else {"num_warps": 4}]


@pytest.mark.parametrize("moved", ["dy", "x", "weight"])
@pytest.mark.parametrize("dtype, elements", [(torch.bfloat16, [8, 1, 2]), (torch.float32, [4, 1, 2])])
def test_the_launch_of_gradients_depends_on_where_the_rows_and_the_weight_begin(
    dtype: torch.dtype, elements: list[int], moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many elements one access moves: 16 bytes, or fewer if a tensor begins one or two elements beyond such a multiple."""
    vectors = []

    def plan(M: int, N: int, itemsize: int, vector: int, inputs: int, sums: int, *rest: object) -> Launches:
        vectors.append(vector)
        return rows_and_columns(M, N, sums)

    monkeypatch.setattr(launch, "backward_plan", plan)
    provider = operator("rmsnorm").providers["triton"]
    assert provider.backward
    for offset in (0, 1, 2):
        shapes = {"dy": (3, 48), "x": (3, 48), "weight": (48,)}
        tensors = [
            torch.zeros(2 + math.prod(shape), dtype=dtype, device=DEVICE)[offset * (name == moved) :][
                : math.prod(shape)
            ].view(shape)
            for name, shape in shapes.items()
        ]
        provider.backward.function(*tensors, torch.ones(3, device=DEVICE))
    assert vectors == elements


@pytest.mark.gpu
@pytest.mark.timeout(60)
@pytest.mark.parametrize("M, N", [(300, 16384), (7, 40000), (1, 65536), (1000, 11008), (5, 262144)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", NORMS)
def test_teams_are_right_on_a_device(name: str, dtype: str, M: int, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the dispatch chooses others. All but three rows of the second launch have the marks of the first."""
    choose = lambda M, N, itemsize, vector, inputs, sums, device, anywhere, wide: shared_rows_plan(  # noqa: E731
        M, N, itemsize, sums, device, sharing(M, N, itemsize, vector, inputs, sums, wide, device)
    )
    monkeypatch.setattr(launch, "backward_plan", choose)
    assert [judged(name, rows, N, "backward", dtype) for rows in (M, M + 3, M)] == [None] * 3


@pytest.mark.gpu
@pytest.mark.timeout(60)
@pytest.mark.parametrize("M, N, rows, piece", [(8, 131072, 8, 512), (13, 40000, 16, 256), (15, 262144, 4, 1024)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", NORMS)
def test_few_rows_are_right_on_a_device(
    name: str, dtype: str, M: int, N: int, rows: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that share rows take several at a time."""
    way = Sharing(piece, 1, warps=4, resident=2, rows=rows)
    choose = lambda M, N, itemsize, vector, inputs, sums, device, *_: shared_rows_plan(  # noqa: E731
        M, N, itemsize, sums, device, way
    )
    monkeypatch.setattr(launch, "backward_plan", choose)
    assert [judged(name, M, N, "backward", dtype) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("N", [40, 300, 40000])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_layernorm_of_a_row_with_an_infinity_is_nan_as_in_torch(N: int, value: float) -> None:
    """Also if it is not among the first elements, from whose mean the others are subtracted. On a device, a maximum of NaN and
    a number is the number, unless asked for otherwise; in the interpreter it is NaN."""
    x = torch.randn(2, N, device=DEVICE)
    x[0, N - 1] = value
    ones = torch.ones(N, device=DEVICE)
    y = operator("layernorm").providers["triton"].function(x, ones, ones, eps=1e-5)
    assert y[0].isnan().all() and not y[1].isnan().any()


@pytest.mark.parametrize("name", NORMS)
def test_weights_in_float32_beside_rows_in_16_bits(name: str) -> None:
    """As when a model is trained with weights in float32. Their gradients are float32 too."""
    provider = operator(name).providers["triton"]
    rows = [torch.randn(6, 40, device=DEVICE).bfloat16() for _ in range(2 if name == "add_rmsnorm" else 1)]
    weights = [torch.randn(40, device=DEVICE) + 3 for _ in range(2 if name == "layernorm" else 1)]
    assert provider.backward and callable(provider.backward.saves)
    outputs, saved = provider.backward.saves(*rows, *weights, eps=1e-5)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    slopes = [torch.randn(6, 40, device=DEVICE).bfloat16() for _ in outputs]
    found = provider.backward.function(*slopes, *rows, *weights, saved)
    exact = [each.double().requires_grad_() for each in (*rows, *weights)]
    expected = operator(name).reference(*exact, eps=1e-5)
    expected = expected if isinstance(expected, tuple) else (expected,)
    wanted = torch.autograd.grad(expected, [exact[0], *exact[len(rows) :]], [each.double() for each in slopes])
    for mine, right in zip((*outputs, *found), (*expected, *wanted), strict=True):
        exact_rows = (
            mine.dtype == torch.float32 and name != "add_rmsnorm"
        )  # which normalises again what it rounded to 16 bits
        precision = 1e-5 if exact_rows else 2**-7
        error = (mine.double() - right).abs().max() / right.abs().max()
        assert error < precision, (error, mine.dtype)
    assert [each.dtype for each in found[1:]] == [torch.float32] * len(weights)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "M, N",
    [
        (2048, 16384),
        (300, 40000),
        (2000, 781),
        (2001, 4097),
        (3000, 1501),
        (2500, 2001),
        (333, 50257),
        (20000, 768),
        (64, 4096),
        (1, 16384),
        (9, 200000),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", NORMS)
def test_what_the_dispatch_chooses_is_right_on_a_device(name: str, dtype: str, M: int, N: int) -> None:
    """The interpreter runs neither the PTX that unpacks 16-bit elements, nor launches that overlap, nor programs that wait."""
    assert judged(name, M, N, "full", dtype) is None


@pytest.mark.gpu
@pytest.mark.parametrize("M, N", [(7, 1), (300, 2), (64, 64), (300, 1024), (300, 16384), (16, 65536)])
@pytest.mark.parametrize("mean", [300, 3000, 30000])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_rows_with_a_large_mean_have_the_right_gradients_on_a_device(dtype: str, mean: float, M: int, N: int) -> None:
    """The elements of a row are equal or nearly so: only x - mean keeps their digits. A GPU fuses a product and a difference,
    and the interpreter does not. N is a power of two, so the mean of equal elements is exact."""
    assert judged("layernorm", M, N, "full", dtype, mean=mean) is None


@pytest.mark.gpu
@pytest.mark.parametrize("M, N", [(300, 40000), (40, 131072), (13, 65536), (2000, 11008), (2001, 4097)])
@pytest.mark.parametrize("name", NORMS)
def test_long_rows_in_16_bits_beside_weights_in_float32_are_right_on_a_device(name: str, M: int, N: int) -> None:
    assert judged(name, M, N, "full", "bfloat16", "float32") is None


@pytest.mark.gpu
@pytest.mark.parametrize("M, N", [(3000, 1024), (64, 4096), (2000, 4096), (900, 7168), (700, 8192), (700, 16384)])
@pytest.mark.parametrize("name", NORMS)
def test_rows_in_16_bits_beside_weights_in_float32_are_right_on_a_device(name: str, M: int, N: int) -> None:
    assert judged(name, M, N, "forward", "bfloat16", "float32") is None


@pytest.mark.gpu
@pytest.mark.parametrize(("itemsize", "row_bytes"), WARPS_OF_TWO_INPUTS)
def test_rows_of_two_inputs_that_are_read_twice_are_right_on_a_device(itemsize: int, row_bytes: int) -> None:
    """Out of place with the gradients, and in place."""
    M, N = LARGE_BYTES // row_bytes, row_bytes // itemsize
    for dtype in ["float32"] if itemsize == 4 else ["bfloat16", "float16"]:
        assert judged("add_rmsnorm", M, N, "full", dtype) is None
        assert judged("add_rmsnorm", M, N, "forward", dtype, provider="triton-in-place") is None


@pytest.mark.gpu
@pytest.mark.parametrize("kind", REGIMES)
def test_rows_that_are_read_with_a_hint_for_the_cache_are_right_on_a_device(kind: tuple[int, bool, int]) -> None:
    """At both ends of each regime, and a vector of 16 bytes away from them."""
    inputs, pivot, itemsize = kind
    name = "layernorm" if pivot else "add_rmsnorm" if inputs == 2 else "rmsnorm"
    for regime in REGIMES[kind]:
        for row_bytes in {int(regime.least * 1024), int(regime.least * 1024) + 16, int(regime.most * 1024)}:
            M, N = LARGE_BYTES // row_bytes + 1, row_bytes // itemsize
            assert judged(name, M, N, "forward", "float32" if itemsize == 4 else "bfloat16") is None
