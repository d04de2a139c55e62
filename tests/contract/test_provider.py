"""How a provider's function is called: what comes from the case, what a config sweeps, and what cannot be registered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.results.case import MODES

MATRIX = Tensor("M", "N")


@pytest.fixture
def mine(no_operators: None) -> Operator:
    return Operator(
        "mine",
        axes=("M", "N"),
        inputs={"x": MATRIX, "w": Tensor("N")},
        outputs={"y": MATRIX, "h": MATRIX},
        scalars={"eps": 1e-6},
        choices={"form": ("tanh", "none")},
        reference=lambda x, w, *, eps, form: (x, x),
        gradients=("x", "w"),
    )


def noted(*inputs: Any, **keywords: Any) -> tuple[Any, ...]:
    return (*inputs, keywords)


@pytest.mark.parametrize("sources", ["no.cu", Path("no.cu"), [__file__, "no.cu"]])
def test_a_source_that_does_not_exist_is_an_error(mine: Operator, sources: Any) -> None:
    with pytest.raises(ValueError, match=r"sources= names no\.cu, which does not exist"):
        mine.provider("p", sources=sources)


def test_a_scalar_needs_no_star_before_it(mine: Operator) -> None:
    mine.provider("p")(lambda x, w, eps=1e-6, form="tanh": (x, w, eps, form))
    mine.backward("p", saves=lambda x, w, eps, form: ((x, w), eps))(lambda d_y, d_h, x, w, saved, eps: (saved, eps))
    mine.full("p")(lambda d_y, d_h, x, w, eps, *, form: (eps, form))
    provider, case = mine.providers["p"], mine.case(M=1, N=2, eps=0.5, form="none")
    assert provider.parameters == {} and provider.declines(case) is None
    assert provider.bind(case, {})(1, 2) == (1, 2, 0.5, "none")
    assert provider.backward and provider.full
    backward, full = provider.backward.bind(case, {}), provider.full.bind(case, {})
    saves = provider.bind_saves(case, {})
    assert callable(saves)
    assert saves(1, 2) == ((1, 2), 0.5) and backward(3, 4, 1, 2, 5) == (5, 0.5) and full(3, 4, 1, 2) == (0.5, "none")


def test_a_backward_kernel_without_a_choice_declines_its_other_words(mine: Operator) -> None:
    mine.provider("p")(lambda x, w, *, eps, form: (x, x))
    mine.backward("p")(lambda d_y, d_h, x, w, *, eps: (x, w))
    declines = {mode: mine.providers["p"].declines(mine.case(M=1, N=2, form="none", mode=mode)) for mode in MODES}
    assert declines["forward"] is None and mine.providers["p"].declines(mine.case(M=1, N=2, mode="backward")) is None
    assert "no argument form" in str(declines["backward"]) and "no argument form" in str(declines["full"])


WHERE = "provider 'p' of 'mine'"
KERNEL = f"backward kernel of {WHERE}"

REFUSED: dict[str, tuple[Callable[[Operator], Any], str]] = {
    "buffer for no output": (
        lambda op: op.provider("p", out="z"),
        f'{WHERE}: out: unknown name "z"; choose from y, h',
    ),
    "two places": (
        lambda op: op.provider("p", mutates={"x": "y"}, out=["y"]),
        f"{WHERE}: the same output is named twice; name each output only once, either in out= or in mutates=",
    ),
    "kernel of nobody": (
        lambda op: op.backward("p"),
        f"{KERNEL}: there is no such provider; register its forward function first",
    ),
    "second kernel": (
        lambda op: (op.backward("again")(noted), op.backward("again")),
        "backward kernel of provider 'again' of 'mine': the provider has one already",
    ),
    "saves nothing known": (
        lambda op: op.backward("again", saves="z"),
        "backward kernel of provider 'again' of 'mine': saves: unknown name \"z\"; choose from y, h",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_registered_is_refused_with_a_sentence(mine: Operator, what: str) -> None:
    mine.provider("again")(noted)
    act, says = REFUSED[what]
    with pytest.raises(ValueError, match="mine") as refused:
        act(mine)
    assert str(refused.value) == says
