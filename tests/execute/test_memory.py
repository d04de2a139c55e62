"""How much memory a case needs: `kbench run --dry-run` prints it."""

from __future__ import annotations

from kbench.contract.layout import Layout
from kbench.contract.memory import KEPT_BYTES, keep_bytes
from kbench.protocol import OperatorInfo
from kbench.results.case import Case

MATMUL = OperatorInfo(
    axes=("M", "N", "K"),
    choices={},
    dtypes=("float32",),
    inputs={"a": Layout(("M", "K")), "b": Layout(("K", "N"))},
    outputs={"y": Layout(("M", "N"))},
)
LOSS = OperatorInfo(
    axes=("M", "V"),
    choices={"mode": ("forward", "backward", "full")},
    dtypes=("bfloat16",),
    inputs={"logits": Layout(("M", "V")), "labels": Layout(("M",), "int64")},
    outputs={"loss": Layout(("M",), "float32"), "best": Layout(("M",), "int64")},
    gradients=("logits",),
)


def test_a_large_product() -> None:
    case = Case("matmul", {"M": 4096, "N": 4096, "K": 4096}, "float32")
    matrix = 4096 * 4096 * 4
    assert MATMUL.call_bytes(case) == 3 * matrix  # 201 MB
    working = 4 * 2 * matrix + 2 * matrix  # three sets of inputs and a copy, two outputs
    least = MATMUL.least_bytes(case)
    assert working < least < 1.5 * working
    # with exactly that much memory, a worker keeps what is left: a quarter of it
    assert abs(working + 3 * keep_bytes(least) - least) <= 3


def test_expected_outputs_that_are_small_are_kept() -> None:
    case = Case("matmul", {"M": 16, "N": 16, "K": 4096}, "float32")
    kept = 3 * 16 * 16 * 16  # a value and a scale in float64, for three sets of inputs
    assert MATMUL.least_bytes(case) == 4 * 2 * 16 * 4096 * 4 + 2 * 16 * 16 * 4 + kept
    assert keep_bytes(None) == keep_bytes(10) == KEPT_BYTES


def test_modes_have_their_gradients() -> None:
    m, v = 8, 100
    logits, labels, loss, best = m * v * 2, m * 8, m * 4, m * 8
    call = {
        mode: LOSS.call_bytes(Case("loss", {"M": m, "V": v, "mode": mode}, "bfloat16")) for mode in LOSS.choices["mode"]
    }
    assert call["forward"] == logits + labels + loss + best
    assert call["backward"] == logits + labels + loss + logits  # integers have no gradient
    assert call["full"] == logits + labels + loss + loss + best + logits
