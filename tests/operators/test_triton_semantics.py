"""What the Triton providers compute: every element against the fp64 reference, whatever the shape, strides and values.

Without an accelerator the kernels run in Triton's interpreter, at about a millisecond a program: M is small. It knows no
layouts, registers or races; `test_triton_builds.py` looks at the first two.
"""

from __future__ import annotations

import gc

import pytest
import torch
from judged_outputs import DEVICE, judge, judged, normal, providers, random_inputs

from kbench.contract.registry import operator

pytest.importorskip("triton")
# numpy says so where a kernel works on a row of -inf or NaN, or on the padding of a tile
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ALL = providers("triton")
GELU_PROVIDERS = operator("gelu").providers
GELU = [name for name in ("triton", "triton-row", "cuda") if not GELU_PROVIDERS[name].unavailable(DEVICE.type)]
DTYPES = [torch.float32, torch.bfloat16]
LENGTHS = [1, 127, 1000, 4096, 65537]

every_one = pytest.mark.parametrize("op, name", ALL)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
@every_one
def test_every_length_and_dtype(op, name, n, dtype):
    assert judge(op, name, normal(3 if n < 10_000 else 1, n, dtype=dtype)) is None


@every_one
def test_rows_that_share_memory_that_begin_anywhere_and_many_rows(op, name):
    row = normal(1, 100)
    assert judge(op, name, row.expand(5, 100)) is None
    assert judge(op, name, row[0].as_strided((5, 60), (7, 1))) is None
    assert judge(op, name, normal(4, 259)[1:, 3:]) is None
    assert judge(op, name, normal(33, 40)) is None


@pytest.mark.parametrize("n", [1, 127, 128, 255, 256, 384, 781, 5000])
def test_gelu_writes_its_output_and_nothing_behind_it(n, monkeypatch):
    """Blocks that fill a matrix have no mask; those that do not fill it need one."""
    x = normal(1, n)
    memory = torch.full((n + 4096,), 7.0, device=DEVICE)
    monkeypatch.setattr(torch, "empty_like", lambda like, **_: memory[:n].view(like.shape))
    out = operator("gelu").providers["triton"].function(x)
    assert out.data_ptr() == memory.data_ptr()
    assert (memory[n:] == 7).all() and not (memory[:n] == 7).any()


def test_gelu_of_a_transposed_matrix_needs_no_copy():
    x = normal(33, 20).t()
    assert judge("gelu", "triton", x) is None
    assert operator("gelu").providers["triton"].function(x).stride() == x.stride()


@pytest.fixture
def released():
    """Frees what a test has reserved at once: a process that holds 100 GB cannot start another one."""
    yield
    gc.collect()


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize(
    "op, name, mode",
    [
        *((op, name, "forward") for op, name in ALL),
        ("softmax", "triton", "backward"),
        ("cross_entropy", "triton", "forward"),
        ("cross_entropy", "triton", "backward"),
        *((op, "triton", "full") for op in ("cross_entropy", "rmsnorm", "add_rmsnorm", "layernorm")),
        ("quantize_fp8", "triton", "forward"),
    ],
)
def test_row_offsets_beyond_32_bits(op, name, mode):
    """Also in the gradients that a backward pass receives."""
    sizes = dict(zip(operator(op).axes, (3, 64), strict=True))
    choices = {"mode": mode} if "mode" in operator(op).words else {}
    case, memory = operator(op).case("float16", **sizes, **choices), far_rows(512)
    far = [
        memory[:, 64 * i : 64 * i + 64].copy_(x) if x.shape == (3, 64) else x for i, x in enumerate(random_inputs(case))
    ]
    assert judged(case, name, far) is None


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_offsets_beyond_32_bits(transposed):
    """Such rows are the left matrix's columns, or the right matrix's rows, as they are where the gradients are computed."""
    x, one = far_rows(16), torch.eye(3, dtype=torch.float16, device=DEVICE)
    x, factors = (x.t(), (x.t(), one)) if transposed else (x, (one, x))
    assert torch.equal(operator("matmul").providers["triton"].function(*factors), x)


def far_rows(columns: int) -> torch.Tensor:
    """Three rows, 2^30 elements apart: the third lies 2^31 past the first, which 32 bits read as 2^31 before it. There is
    memory there too, reserved and never touched, so that a wrapped offset reads zeros instead of crashing."""
    try:
        memory = torch.empty(2**32 + columns, dtype=torch.float16, device=DEVICE)
    except RuntimeError as error:
        pytest.skip(f"cannot reserve 8 GB: {error}")
    return memory.as_strided((3, columns), (2**30, 1), 2**31).copy_(normal(3, columns))


@pytest.mark.slow
@pytest.mark.parametrize("approximate", ["tanh", "none"])
@pytest.mark.parametrize("name", GELU)
def test_gelu_over_the_whole_range(name, approximate):
    """From where it is x/2, through the tail where 1 + tanh cancels, to where the cube and the exponential overflow."""
    x = torch.cat([torch.logspace(-30, 38, 500), torch.linspace(0, 8, 20_001), torch.tensor([1e5, torch.inf])])
    assert judge("gelu", name, torch.stack([x, -x]).to(DEVICE), approximate=approximate) is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("approximate", ["tanh", "none"])
@pytest.mark.parametrize("name", GELU)
def test_gelu_of_every_16_bit_value(name, approximate, dtype):
    """NaN, infinities and subnormals included."""
    bits = torch.arange(-(2**15), 2**15).to(torch.int16)
    assert judge("gelu", name, bits.view(dtype).reshape(64, 1024).to(DEVICE), approximate=approximate) is None


@pytest.mark.slow
@pytest.mark.parametrize("keywords", [{"num_warps": 1}, {"num_stages": 4}])
@pytest.mark.parametrize(
    "op, name", [("softmax", "triton-row"), ("softmax", "triton-persistent"), ("gelu", "triton-row")]
)
def test_parameters_change_speed_alone(op, name, keywords):
    if keywords.keys() <= operator(op).providers[name].parameters.keys():
        assert judge(op, name, normal(3, 1000), **keywords) is None
