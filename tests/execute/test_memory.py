"""How many bytes a case has: `kbench run --dry-run` prints them."""

from __future__ import annotations

from kbench.contract.tensor import Layout
from kbench.measure.correctness.expected import KEPT_BYTES, KEPT_MOST, keep_bytes
from kbench.protocol import OperatorInfo
from kbench.results.case import Case

LOSS = OperatorInfo(
    axes=("M", "V"),
    choices={"mode": ("forward", "backward", "full")},
    dtypes=("bfloat16",),
    inputs={"logits": Layout(("M", "V")), "labels": Layout(("M",), "int64")},
    outputs={"loss": Layout(("M",), "float32"), "best": Layout(("M",), "int64")},
    gradients=("logits",),
)


def test_modes_have_their_gradients() -> None:
    m, v = 8, 100
    logits, labels, loss, best = m * v * 2, m * 8, m * 4, m * 8
    call = {
        mode: LOSS.tensor_bytes(Case("loss", {"M": m, "V": v, "mode": mode}, "bfloat16"))
        for mode in LOSS.choices["mode"]
    }
    assert call["forward"] == logits + labels + loss + best
    assert call["backward"] == logits + labels + loss + logits  # integers have no gradient
    assert call["full"] == logits + labels + loss + loss + best + logits


def test_expected_values_are_kept_if_they_fit() -> None:
    assert keep_bytes(None) == keep_bytes(10) == KEPT_BYTES
    assert keep_bytes(30 * 10**9) == 35 * 10**8
    assert keep_bytes(10**12) == KEPT_MOST
