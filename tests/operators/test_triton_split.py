"""Rows that Triton's softmax splits over programs or holds in several blocks: every element against the fp64 reference,
and nothing written beside the output.

Without an accelerator the kernels run in Triton's interpreter, as in `test_triton_semantics.py`.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest
import torch
from judging import DEVICE, judge, normal

from kbench.contract.provider import Unsupported
from kbench.contract.registry import operator
from kbench.kernels import triton_rows
from kbench.operators.softmax.triton_dispatch import DISPATCH, FEW_ROWS, dispatch
from kbench.results.case import Case

pytest.importorskip("triton")
# numpy says so where a kernel works on a row of -inf or NaN, or on the padding of a tile
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("n", [12288, 14400, 20481, 24560, 28656])
def test_many_rows_of_several_blocks(n, first):
    """Rows that begin and end anywhere, and -inf in all but one of the blocks."""
    from kbench.operators.softmax import providers_triton as provider

    x = normal(3, n + 8 * first, dtype=torch.bfloat16)[:, first : n + first]
    x[0, : n - 100], x[1, 4000:] = float("-inf"), float("-inf")
    launch = dispatch(4096, n, 2, provider._vector(x))
    assert launch.kernel == "tile" and launch.constants["PIECES"] == -(-n // 4096)
    out = provider.launch_rows(launch, x, torch.empty(3, n, dtype=x.dtype, device=x.device))
    expected = x.double().softmax(1)
    assert ((out.double() - expected).abs() <= expected * 2**-7 + 1e-7).all()


EIGHTHS = [
    (33, 4, 5),
    (65, 2, 5),
    (137, 2, 5),
    (137, 4, 5),
    (384, 2, 6),
    (410, 2, 7),
    (526, 4, 5),
    (1456, 2, 6),
    (4511, 4, 5),
    (8892, 2, 5),
    (12446, 2, 7),
]


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("n, itemsize, pieces", EIGHTHS)
def test_rows_that_would_leave_lanes_idle_are_held_in_eighths(n, itemsize, pieces, first):
    from kbench.operators.softmax import providers_triton as provider

    dtype = torch.float32 if itemsize == 4 else torch.float16
    m = 19 if n < 500 else 5  # shorter rows share a program, and the last program is not full
    x = normal(m, n + 8 * first, dtype=dtype)[:, first : n + first]
    x[0, : n - 9], x[1, 9:], x[2] = float("-inf"), float("-inf"), float("-inf")
    launch = dispatch(2**22, n, itemsize)
    assert launch.constants["PIECES"] == pieces
    launch = dispatch(2**22, n, itemsize, provider._vector(x))
    assert m > launch.constants["ROWS"]
    memory = torch.full((m * n + 256,), 7.0, dtype=dtype, device=x.device)
    out = provider.launch_rows(launch, x, memory[128 : 128 + m * n].view(m, n))
    expected = x.double().softmax(1)
    right = (out.double() - expected).abs() <= expected * (2**-10 if itemsize == 2 else 2e-6) + 1e-7
    assert (right | (out.isnan() & expected.isnan())).all()
    assert (memory[:128] == 7).all() and (memory[128 + m * n :] == 7).all()


@pytest.mark.parametrize(
    "n, itemsize", [(100, 4), (200, 2), (781, 2), (781, 4), (1000, 2), (3072, 2), (6144, 2), (12288, 2)]
)
def test_rows_that_fill_most_of_their_lanes_are_held_in_all_of_them(n, itemsize):
    assert dispatch(2**22, n, itemsize).constants["PIECES"] == max(1, n // 4096)


def test_a_small_matrix_is_held_in_eighths_where_that_is_much_less_to_do():
    assert dispatch(1000, 526, 2).constants["PIECES"] == 1
    assert dispatch(1000, 137, 2).constants["PIECES"] == 5
    assert dispatch(FEW_ROWS, 137, 2).constants["PIECES"] == 1


@pytest.mark.parametrize(
    "device, version, capability, expected",
    [
        ("cuda", None, (9, 0), True),
        ("cuda", None, (8, 0), False),
        ("cuda", "7.0", (9, 4), False),
        ("xpu", None, (0, 0), False),
    ],
)
def test_a_register_limit_is_set_only_where_it_is_known(monkeypatch, device, version, capability, expected):
    monkeypatch.setattr(torch.version, "hip", version)
    monkeypatch.setattr(triton_rows, "_properties", lambda device: SimpleNamespace(major=capability[0]))
    capped = triton_rows.caps_registers(torch.device(device))
    assert capped is expected
    assert ("maxnreg" in dispatch(4096, 65536, 2, capped=capped).options) is expected


@pytest.mark.parametrize("itemsize", DISPATCH)
@pytest.mark.parametrize("n, warps", [(128, 1), (129, 1), (512, 1), (781, 4), (2048, 4), (3072, 4), (8192, 8)])
def test_few_rows_are_spread_over_programs_and_threads(n, warps, itemsize):
    few, many = dispatch(FEW_ROWS, n, itemsize), dispatch(4096, n, itemsize)
    assert few.programs(FEW_ROWS) == FEW_ROWS and few.options["num_warps"] == warps
    assert few.constants["ROWS"] == 1
    # where they are many, a program has 2 KiB of short rows, in float32 up to 4
    assert (many.constants["ROWS"] > 1) is (n * itemsize <= (2048 if itemsize == 4 else 1024))


@pytest.mark.parametrize("itemsize", DISPATCH)
@pytest.mark.parametrize("n", [256, 65536])
def test_only_what_fits_into_the_cache_is_stored_past_it(n, itemsize):
    """Rows of 8 MiB have streaming stores, with one more they have not."""
    rows = 2**23 // (n * itemsize)
    assert [dispatch(m, n, itemsize).constants["STREAM"] for m in (1, rows, rows + 1)] == [True, True, False]


SPLITS = [{"parts": 1}, {"parts": 2}, {"parts": 5}, {"PIECES": 3}]


def test_a_row_in_pieces_leaves_fewer_lanes_idle():
    whole, pieces = dispatch(4096, 6000, 4), dispatch(4096, 6000, 4, PIECES=6)
    assert [launch.constants["BLOCK"] * launch.constants["PIECES"] for launch in (whole, pieces)] == [8192, 6144]
    with pytest.raises(Unsupported, match="BLOCK=256 in 6 pieces cannot hold a row of N=6000"):
        dispatch(4096, 6000, 4, BLOCK=256, PIECES=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "n, dtype, keywords",
    [(n, dtype, keywords) for n, dtype in ((1, torch.float16), (321, torch.float32)) for keywords in SPLITS]
    + [(321, torch.bfloat16, {"parts": 5})],
    ids=str,
)
def test_split_rows_of_every_edge_input(n, dtype, keywords):
    """Slices that are -inf throughout, rows that begin and end anywhere, more slices than there is to split."""
    definition = operator("softmax")
    case = Case("softmax", {"M": 3, "N": n}, str(dtype).removeprefix("torch."))
    for edge, make in definition.edges.items():
        (x,) = make(case, normal(3, n, dtype=dtype))
        if edge != "transposed":
            assert judge("softmax", "triton", x, **keywords) is None, edge


@pytest.mark.slow
def test_split_rows_after_other_shapes():
    """What one launch leaves in the words that programs exchange must suit the next, whatever its shape."""
    for m, n, parts in [(2, 640, 3), (7, 640, 3), (7, 999, 3), (1, 640, 5), (20, 320, 3), (2, 640, 3)]:
        assert judge("softmax", "triton", normal(m, n), parts=parts) is None, (m, n, parts)


@pytest.mark.parametrize(
    "keywords, says",
    [({"parts": 129}, r"129 slices \(at most 128\)"), ({"parts": 2, "BLOCK": 1024}, "does not fit into BLOCK=1024")],
)
def test_impossible_splits_are_declined(keywords, says):
    with pytest.raises(Unsupported, match=says):
        operator("softmax").providers["triton"].function(normal(1, 64 * 129), **keywords)


def test_a_device_that_cannot_split_rows_says_what_to_do():
    with pytest.raises(
        Unsupported, match="this device cannot split a row into slices; remove the parameter `parts`, or use a BLOCK"
    ):
        dispatch(1, 64 * 8, 4, waiting=0, parts=8)
    assert dispatch(1, 64 * 8, 4, waiting=0).parts in (None, 1)


@pytest.mark.parametrize("waiting", [1, 16, 58, 132])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_programs_wait_only_for_programs_that_the_device_holds(waiting, itemsize):
    """A multiprocessor may hold no more than 256 threads, if each takes as many registers as it can."""
    for m, n in product([1, 100], [2**17, 2**17 + 1, 2**18, 2**19, 2**20, 2**21, 2**22]):
        launch = dispatch(m, n, itemsize, waiting=waiting)
        most = max(1, 256 // (32 * launch.options["num_warps"])) * waiting
        assert launch.parts <= min(most, 128) and (launch.kernel == "online" or launch.parts * launch.span >= n)


def test_more_slices_than_a_small_device_holds_are_declined():
    with pytest.raises(Unsupported, match=r"33 slices \(at most 32\)"):
        dispatch(1, 33 * 4096, 2, waiting=16, parts=33)
    assert dispatch(1, 33 * 4096, 2, waiting=132, parts=33).parts == 33


def test_slices_that_are_minus_infinity():
    x = normal(4, 1024)
    x[0, :256], x[1, 768:], x[2, 256:512], x[3, 1:] = (float("-inf"),) * 4
    assert judge("softmax", "triton", x, parts=4) is None


@pytest.mark.slow
@pytest.mark.parametrize("m, n", [(m, n) for n in (65, 71, 1018, 1025) for m in (1, 65 if n < 100 else 5)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_that_fill_no_whole_vectors_touch_no_neighbour(m, n, dtype):
    """Rows are read and written in whole vectors that straddle them; memory around the output stays as it was."""
    from kbench.operators.softmax import providers_triton as provider

    x = normal(m, n, dtype=dtype)
    memory = torch.full((m * n + 256,), 7.0, dtype=dtype, device=DEVICE)
    out = memory[128 : 128 + m * n].view(m, n)
    launch = dispatch(m, n, x.element_size())
    provider.launch_rows(launch, x, out)
    assert (memory[:128] == 7).all() and (memory[128 + m * n :] == 7).all()
    assert torch.equal(out, operator("softmax").providers["triton"].function(x))
