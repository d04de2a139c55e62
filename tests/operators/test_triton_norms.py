"""The kernels of the norms in Triton: each on matrices that Triton's interpreter computes quickly, the launches that the table
chooses, and calls on a device."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_outputs import DEVICE, judged, random_inputs

from kbench.contract.registry import operator
from kbench.kernels.norms import launch
from kbench.kernels.norms.launch import Shape, Sharing, Way
from kbench.kernels.triton_launch import Launch, Launcher, Processors

pytest.importorskip("triton")
# numpy, where a kernel works on the padding of a block
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

NORMS = ["rmsnorm", "add_rmsnorm", "layernorm"]
DEVICES = [
    Processors(),  # an H200
    Processors(multiprocessors=108, waiting=108, shared_bytes=163 * 1024, chains=False),
    Processors(warp_size=64, multiprocessors=304, waiting=304, packs=False, shared_bytes=0, chains=False),
    Processors(multiprocessors=8, waiting=8),  # a slice of an H200
    Processors(multiprocessors=170, waiting=170, shared_bytes=99 * 1024),  # a workstation card, compute capability 12.0
    Processors(multiprocessors=16, waiting=0, packs=False, shared_bytes=0, chains=False),
]

NUMBERS = (0, 0, 0, 0, 0)

BACKWARD: dict[str, Callable[..., Way]] = {
    "resident": lambda shape, numbers: launch.resident(shape, numbers, 0),
    "one tile ahead in registers": lambda shape, numbers: launch.resident(shape, numbers, 1),
    "tiles on the way to shared memory": lambda shape, numbers: launch.resident(shape, numbers, 2**30),
    "two programs share a row": lambda shape, numbers: launch.shared_rows(shape, numbers, Sharing(64, 3, 1, 1)),
    "rows and columns": launch.rows_and_columns,
}


@pytest.fixture(autouse=True)
def no_launch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_forward", Launcher(launch.forward_launch))
    monkeypatch.setattr(launch, "_backward", {})


def norm_judged(
    name: str, M: int, N: int, mode: str, dtype: str = "float32", weight_dtype: str = "same", mean: float = 0.0
) -> str | None:
    """What is wrong with the outputs, or with the gradients, of `triton`. `mean` is added to the elements of x."""
    case = operator(name).case(dtype, M=M, N=N, mode=mode, weight_dtype=weight_dtype)
    inputs = random_inputs(case)
    inputs[0].add_(mean)
    return judged(case, "triton", inputs)


@pytest.mark.parametrize("M, N, dtype, weights", [
    (40, 64, "bfloat16", "same"),  # several rows in a program
    (3, 600, "float32", "same"),  # a row in several blocks
    (5, 601, "bfloat16", "float32"),
    (2, 9000, "float32", "same"),  # a row that is read twice
    (2, 17001, "bfloat16", "same"),
])  # fmt: skip
@pytest.mark.parametrize("name", NORMS)
def test_every_forward_kernel_is_right(name: str, M: int, N: int, dtype: str, weights: str) -> None:
    """In mode full, the statistics that it saves are right too."""
    assert norm_judged(name, M, N, "full" if N < 1000 else "forward", dtype, weights) is None


@pytest.mark.parametrize("M, N, dtype, weights", [(9, 77, "float32", "same"), (7, 192, "bfloat16", "float32")])
@pytest.mark.parametrize("form", BACKWARD)
@pytest.mark.parametrize("name", NORMS)
def test_every_backward_kernel_is_right(
    name: str, form: str, M: int, N: int, dtype: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "backward_way", BACKWARD[form])
    assert norm_judged(name, M, N, "backward", dtype, weights) is None


@pytest.mark.parametrize("name", NORMS)
def test_rows_that_nothing_else_can_hold_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any length and alignment, on any device: each row is read twice, and the columns are summed in parts."""
    monkeypatch.setattr(launch, "LONGEST_HELD", 16)
    assert norm_judged(name, 41, 77, "backward") is None
    assert norm_judged(name, 3, 5001, "backward", "bfloat16") is None


@pytest.mark.parametrize("form, first", [("rows and columns", 1), ("resident", 1), ("two programs share a row", 2)])
@pytest.mark.parametrize("name", ["add_rmsnorm", "layernorm"])
def test_tensors_of_16_bits_that_begin_anywhere_are_right(
    name: str, form: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tensors, and the weight alone. A kernel that was compiled for aligned tensors is not used for others of the same
    shape. `test_every_provider.py` has the launches of the table, and rmsnorm, whose tensors add_rmsnorm has too."""
    monkeypatch.setattr(launch, "backward_way", BACKWARD[form])
    case = operator(name).case("bfloat16", M=3, N=304, mode="full")
    inputs, weight = random_inputs(case), [*operator(name).inputs].index("weight")
    moved = [
        x.new_empty(*x.shape[:-1], 312)[..., first : first + 304].copy_(x) if x.shape[-1] == 304 else x for x in inputs
    ]
    for tensors in (inputs, [*inputs[:weight], moved[weight], *inputs[weight + 1 :]], moved):
        assert judged(case, "triton", tensors) is None


@pytest.mark.parametrize("N", [40, 300, 40000])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_layernorm_of_a_row_with_an_infinity_is_nan_as_in_torch(N: int, value: float) -> None:
    """On a device, a maximum of NaN and a number is the number, unless asked for otherwise; in the interpreter it is NaN."""
    x = torch.randn(2, N, device=DEVICE)
    x[0, N - 1] = value
    ones = torch.ones(N, device=DEVICE)
    y = operator("layernorm").providers["triton"].function(x, ones, ones, eps=1e-5)
    assert y[0].isnan().all() and not y[1].isnan().any()


SHAPES = st.builds(
    Shape,
    M=st.integers(1, 2_000_000),
    N=st.integers(1, 2**18) | st.sampled_from([2**n + more for n in range(1, 18) for more in (-1, 0, 1)]),
    itemsize=st.sampled_from([2, 4]),
    weight_bytes=st.sampled_from([2, 4]),
    vector=st.just(8),
    matrices=st.integers(1, 3),
    layernorm=st.booleans(),
)


def possible(shape: Shape, matrices: int, aligned: bool) -> Shape:
    """The shape with accesses and weights that it can have."""
    itemsize = shape.itemsize
    vector = math.gcd(16, shape.N * itemsize) // itemsize if aligned else 1
    count = 1 if shape.layernorm else min(shape.matrices, 2)
    return shape._replace(vector=vector, weight_bytes=max(itemsize, shape.weight_bytes), matrices=count + matrices)


def compiles(one: Launch) -> None:
    """Blocks are powers of two, and so are warps; a program has at most 1024 threads."""
    for name in ("ROWS", "BLOCK", "WIDTH", "STEP"):
        assert one.constants.get(name, 1).bit_count() == 1, (name, one.constants)
    assert one.options["num_warps"] in (1, 2, 4, 8, 16, 32) and one.programs > 0


@settings(max_examples=200, deadline=None)
@given(SHAPES, st.sampled_from(DEVICES), st.booleans())
def test_the_forward_launch_covers_every_matrix(shape: Shape, device: Processors, aligned: bool) -> None:
    shape = possible(shape, 0, aligned)._replace(processors=device)
    one = launch.forward_way(shape, NUMBERS)
    compiles(one)
    constants = one.constants
    if "PIECES" not in constants:
        assert one.programs == shape.M
        return
    lanes = constants["BLOCK"] * constants["PIECES"]
    assert lanes >= shape.N and one.programs * constants["ROWS"] >= shape.M
    assert constants["FULL"] == (lanes == shape.N and shape.M % constants["ROWS"] == 0)


@settings(max_examples=200, deadline=None)
@given(SHAPES, st.sampled_from(DEVICES), st.booleans())
def test_the_backward_launches_cover_every_matrix(shape: Shape, device: Processors, aligned: bool) -> None:
    shape = possible(shape, 1, aligned)._replace(processors=device)
    first, parts = launch.backward_way(shape, NUMBERS)
    compiles(first)
    compiles(launch.add_up(shape, parts))
    constants, lanes = first.constants, first.constants["BLOCK"] * first.constants["PIECES"]
    numbers, kernel = first.numbers[len(NUMBERS) :], first.kernel.__name__
    if kernel == "rows_and_columns":
        strips, written, chunk = numbers
        assert first.programs == strips * parts + shape.M and strips * constants["WIDTH"] >= shape.N
        assert written == parts and chunk * parts >= shape.M and (lanes >= shape.N or constants["PIECES"] == 0)
    elif kernel == "resident":
        assert lanes >= shape.N and numbers[0] * constants["ROWS"] >= shape.M
        assert first.programs == parts <= numbers[0]
    else:
        slices, span = numbers
        assert kernel == "shared_rows" and shape.vector * shape.itemsize >= 4 and device.waiting and first.waits
        assert slices * span >= shape.N and lanes >= span and constants["WIDTH"] >= slices
        # all programs are on the device at once, whatever registers they take
        threads = first.options["num_warps"] * device.warp_size
        registers = 8 * math.ceil(first.options.get("maxnreg", 255) / 8)
        at_once = device.multiprocessors * max(1, 2**16 // (threads * registers))
        assert first.programs == slices * parts <= at_once
    if constants.get("STAGES", 1) > 1:
        assert 2 * constants.get("ROWS", 1) * lanes * shape.itemsize * shape.matrices <= device.shared_bytes


ON_A_DEVICE = [
    (20000, 64), (20000, 768), (2000, 781), (3000, 1501), (2001, 4097), (64, 4096), (1, 16384), (900, 7168), (2000, 11008),
    (2048, 16384), (300, 40000), (7, 40000), (333, 50257), (9, 200000), (257, 262144),
]  # fmt: skip
PRECISIONS = [("bfloat16", "same"), ("float16", "same"), ("float32", "same"), ("bfloat16", "float32")]


@pytest.mark.gpu
@pytest.mark.timeout(120)
@pytest.mark.parametrize("at", range(len(ON_A_DEVICE)), ids=lambda at: "x".join(map(str, ON_A_DEVICE[at])))
@pytest.mark.parametrize("name", NORMS)
def test_the_launches_of_the_table_are_right_on_a_device(name: str, at: int) -> None:
    """The interpreter runs neither the PTX that unpacks 16-bit elements, nor launches that overlap, nor programs that wait. All
    but three rows of a second launch have the marks of the first. The norms take the precisions in turn: each shape has three
    of them, and each norm all four."""
    (M, N), (dtype, weights) = ON_A_DEVICE[at], PRECISIONS[(at + NORMS.index(name)) % 4]
    assert [norm_judged(name, rows, N, "full", dtype, weights) for rows in (M, M + 3, M)] == [None] * 3


@pytest.mark.gpu
@pytest.mark.parametrize("M, N", [(7, 1), (300, 2), (64, 64), (300, 1024), (600, 16384), (16, 65536)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_rows_with_a_large_mean_have_the_right_gradients_on_a_device(dtype: str, M: int, N: int) -> None:
    """The elements of a row are equal or nearly so: only x - mean keeps their digits. A GPU fuses a product and a difference,
    and the interpreter does not. N is a power of two, so the mean of equal elements is exact."""
    for mean in (300, 3000, 30000):
        assert norm_judged("layernorm", M, N, "full", dtype, mean=mean) is None, mean


@pytest.mark.gpu
@pytest.mark.timeout(120)
def test_programs_that_wait_run_from_a_graph_and_on_two_streams() -> None:
    """Together, two launches have more programs than a device holds at once."""
    x, weight = torch.randn(300, 65536, device="cuda"), torch.randn(65536, device="cuda")
    provider = operator("rmsnorm").providers["triton"]
    assert provider.backward and callable(provider.backward.saves)
    _, saved = provider.backward.saves(x, weight, eps=1e-6)
    backward, graph = provider.backward.function, torch.cuda.CUDAGraph()
    wanted, streams, results = backward(x, x, weight, saved), [torch.cuda.Stream(), torch.cuda.Stream()], []
    torch.cuda.synchronize()
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                results = [*results[-3:], backward(x, x, weight, saved)]
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        results.append(backward(x, x, weight, saved))
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(mine, right) for gradients in results for mine, right in zip(gradients, wanted, strict=True))
