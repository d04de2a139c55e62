"""Inputs change before every timed call, and what timed calls return is checked.

The cheats are right whenever they are checked, and do less while they are timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from in_process import measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import Case
from kbench.results.row import Row

MATRIX = Declared("M", "N")

softmax = Operator(
    "salted-softmax",
    axes=("M", "N"),
    inputs={"x": MATRIX},
    outputs={"y": MATRIX},
    rows="M",
    reference=lambda x: x.softmax(-1),
)

CHECKS = 5
"""More than the calls of the checks before timing."""

Call = Callable[[Tensor], Tensor]


def right(x: Tensor) -> Tensor:
    return x.softmax(-1)


def provider(make: Callable[[], Call]) -> None:
    softmax.provider(make.__name__.replace("_", "-"), factory=True)(lambda case: make())


@provider
def honest() -> Call:
    return right


@provider
def same_element() -> Call:
    """Compares an element of its input with that of the last one."""
    last: list[tuple[float, Tensor]] = []

    def call(x: Tensor) -> Tensor:
        if not last or last[0][0] != x[0, 0].item():
            last[:] = [(x[0, 0].item(), right(x))]
        return last[0][1].clone()

    return call


@provider
def same_version() -> Call:
    """Trusts that torch counts all changes."""
    last: list[tuple[tuple[int, int], Tensor]] = []

    def call(x: Tensor) -> Tensor:
        key = (x.data_ptr(), x._version)
        if not last or last[0][0] != key:
            last[:] = [(key, right(x))]
        return last[0][1].clone()

    return call


@provider
def same_address() -> Call:
    """Computes at an address as often as it may be checked there."""
    stored: dict[int, tuple[int, Tensor]] = {}

    def call(x: Tensor) -> Tensor:
        count, y = stored.get(x.data_ptr(), (0, x))
        stored[x.data_ptr()] = (count + 1, right(x) if count < CHECKS else y)
        return stored[x.data_ptr()][1].clone()

    return call


def later(instead: Call) -> Call:
    """Is right for some calls, then does something else."""
    calls: list[int] = []

    def call(x: Tensor) -> Tensor:
        calls.append(1)
        return right(x) if len(calls) < CHECKS else instead(x)

    return call


@provider
def nothing_later() -> Call:
    return later(torch.empty_like)


@provider
def zeros_later() -> Call:
    return later(torch.zeros_like)


@provider
def half_the_rows() -> Call:
    last: list[Tensor] = []

    def half(x: Tensor) -> Tensor:
        last[:] = last or [right(x)]
        y = last[0].clone()
        y[: len(x) // 2] = right(x[: len(x) // 2])
        return y

    return later(half)


@provider
def one_of_all_sets() -> Call:
    """Computes one call of a graph, and copies its result in the others."""
    first: list[Tensor] = []

    def call(x: Tensor) -> Tensor:
        if not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing():
            return right(x)
        first[:] = first or [right(x)]
        return first[0].clone()

    return call


STORED = (
    r"\d+ of \d+ rows that kbench looked at hold results for other inputs: it returns stored results or skips its work"
)

SAID = {
    "same-element": STORED,
    "same-version": STORED,
    "same-address": STORED,
    "nothing-later": ".*",
    "zeros-later": r"(\d+) of \1 rows that kbench looked at hold zeros: it probably leaves work undone",
    "half-the-rows": ".* rows that kbench looked at hold results for other inputs: it leaves a part of its work undone",
    "one-of-all-sets": STORED,
}


def caught(row: Row) -> None:
    assert re.match(
        rf"wrong right when checked, wrong while it was timed \(call \d+ of \d+\): {SAID[row.provider]}", said(row)
    ), said(row)


@pytest.mark.slow
def test_cheats_on_a_host() -> None:
    cheats = [name for name in SAID if name != "one-of-all-sets"]
    found = measured(softmax, ["honest", *cheats], M=64, N=128, rep_ms=20, rounds=3)
    assert said(found["honest"]) == "ok"
    for name in cheats:
        caught(found[name])


scaled = Operator(
    "salted-scaled",
    axes=("N", "M"),
    inputs={"x": Declared("N", "M"), "w": Declared("N")},
    outputs={"y": Declared("N", "M")},
    rows="M",
    gradients=("x", "w"),
    reference=lambda x, w: x * w[:, None],
)


def scale(x: Tensor, w: Tensor) -> Tensor:
    return x * w[:, None]


scaled.provider("honest")(scale)


@scaled.provider("stored", factory=True)
def _stored(case: Case) -> Callable[..., Tensor]:
    stored: list[Tensor] = []

    def call(x: Tensor, w: Tensor) -> Tensor:
        stored.append(scale(x, w) if len(stored) < CHECKS else stored[-1])
        return stored[-1].clone()

    return call


scaled.provider("kernel")(scale)


@scaled.backward("kernel")
def kernel(dy: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of w is right for some calls, and stored after them."""
    sums = (dy * x).sum(1)
    KEPT.append(sums if len(KEPT) < CHECKS else KEPT[-1])
    return dy * w[:, None], KEPT[-1].clone()


KEPT: list[Tensor] = []


def test_a_provider_that_computes_only_changed_rows_computes_nearly_all_of_them() -> None:
    """So it gains nothing, although its outputs are right."""
    computed: list[int] = []
    operator = Operator(
        "salted-rows",
        axes=("M", "N"),
        inputs={"x": MATRIX},
        outputs={"y": MATRIX},
        rows="M",
        reference=lambda x: x.softmax(-1),
    )

    @operator.provider("changed-rows", factory=True)
    def changed_rows(case: Case) -> Call:
        last: list[Tensor] = []

        def call(x: Tensor) -> Tensor:
            if not last:
                last[:] = [x.clone(), right(x)]
            changed = (last[0] != x).any(-1).nonzero().flatten()
            computed.append(len(changed))
            last[0][changed], last[1][changed] = x[changed], right(x[changed])
            return last[1].clone()

        return call

    row = measured(operator, dtype="float32", rounds=3, M=256, N=64)["changed-rows"]
    assert said(row) == "ok"
    timed = sorted(count for count in computed[10:] if count)  # calls that warm up get the same inputs again and again
    assert len(timed) > 20 and timed[len(timed) // 2] > 240


@pytest.mark.parametrize("sliced", [True, False])
def test_rows_that_are_too_long_are_judged_by_some_of_their_elements(
    sliced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbench.measure.salting.kept.LARGEST_KEPT", 1000)
    monkeypatch.setattr("kbench.measure.salting.kept.ELEMENTS_KEPT", 500)
    if sliced:
        monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 300)
    found = measured(scaled, ["honest", "stored"], rep_ms=5, N=100, M=20)
    assert said(found["honest"]) == "ok"
    assert re.match(
        r"wrong right when checked, wrong while it was timed .*: \d+ of 500 elements that kbench looked at hold results",
        said(found["stored"]),
    )


def test_gradients_without_rows_are_judged() -> None:
    KEPT.clear()
    found = measured(scaled, ["honest", "kernel"], rep_ms=5, N=30, M=20, mode="backward")
    assert said(found["honest"]) == "ok"
    assert re.match(
        r"wrong right when checked, wrong while it was timed .*: gradient of w: \d+ of 30 elements",
        said(found["kernel"]),
    ), said(found["kernel"])


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("timer", "cache", "cheats"),
    [
        ("do_bench", "cold", "same-element same-version same-address nothing-later zeros-later half-the-rows"),
        ("graph", "warm", "same-version zeros-later half-the-rows"),
        ("graph", "cold", "zeros-later half-the-rows one-of-all-sets"),
    ],
)
def test_cheats_on_a_device(timer: str, cache: str, cheats: str) -> None:
    names = ["honest", *cheats.split()]
    found = measured(softmax, names, M=1024, N=512, timer=timer, cache=cache, rounds=2, rep_ms=30)
    assert said(found["honest"]) == "ok"
    for name in cheats.split():
        caught(found[name])
