"""Functions of a notebook as providers: what goes along to the worker that measures them, and what cannot."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from small_sweep import SMALL

import kbench
from kbench.notebook import functions

SCALE, LIMIT, AXIS = 2.0, math.inf, {"dim": -1, "names": ("a", None)}
KIND = torch.float32


def text(function: Any) -> str:
    return functions.source("mine", function, "softmax")


def made(function: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function as a worker has it: nothing of this module is there but the source that was written."""
    registered: dict[str, Any] = {}
    operator = type(
        "Operator", (), {"providers": {}, "provider": lambda self, name: functools.partial(registered.setdefault, name)}
    )
    monkeypatch.setattr(kbench, "operator", lambda name: operator())
    exec(compile(text(function), "mine.py", "exec"), {"__name__": "mine"})
    return registered["mine"]


def local(name: str) -> Any:
    """A function as a notebook defines it: no worker can import it."""

    def helper(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.to(KIND) * SCALE / SCALE, dim=AXIS["dim"])

    def closes(x: torch.Tensor, *, limit: float = LIMIT) -> torch.Tensor:
        assert name == "closes" and limit == math.inf
        return helper(x)

    class Kept:
        scale = 1

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return helper(x) * self.scale

    def with_class(x: torch.Tensor) -> torch.Tensor:
        return Kept()(x)

    @functools.lru_cache
    def decorated(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x - torch.logsumexp(x, -1, keepdim=True))

    def inside(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([closes_over(part) for part in x])

    def closes_over(x: torch.Tensor) -> torch.Tensor:
        return helper(x) if x.dim() else inside(x)

    return locals()[name]


@pytest.mark.parametrize("name", ["helper", "closes", "with_class", "decorated", "inside"])
def test_a_function_takes_along_what_it_uses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 5)
    torch.testing.assert_close(made(local(name), monkeypatch)(x), torch.softmax(x, -1))


def test_a_kernel_takes_its_source_along() -> None:
    block = tl.constexpr(16)

    @triton.jit
    def kernel(x, n, SIZE: tl.constexpr):
        tl.store(x + tl.arange(0, SIZE) % block, n)

    def launch(x: torch.Tensor) -> torch.Tensor:
        kernel[(1,)](x, 1, SIZE=16)
        return x

    written = text(launch)
    assert "@triton.jit\ndef kernel(x, n, SIZE: tl.constexpr):\n" in written
    assert "block = triton.language.constexpr(16)\n" in written and "import triton.language as tl\n" in written
    assert written.index("def kernel") < written.index("def launch")
    compile(written, "mine.py", "exec")


def test_two_functions_of_one_name_are_two_providers(tmp_path: Path) -> None:
    def scaled(factor: float) -> Any:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x * factor

        return inner

    one, two = functions.write_plugins({"x 1": scaled(1.0), "x 2": scaled(2.0)}, "softmax", tmp_path)
    assert "factor = 1.0\n" in one.read_text() and "factor = 2.0\n" in two.read_text()
    with pytest.raises(kbench.ConfigError, match="provider inner: two functions have this name; pass them as"):
        functions.write_plugins([scaled(1.0), scaled(2.0)], "softmax", tmp_path)


TENSOR = torch.ones(3)
WRAPPED = functools.wraps(local("helper"))(lambda x: local("helper")(x))


def uses_a_tensor() -> Any:
    def uses(x: torch.Tensor) -> torch.Tensor:
        return x + TENSOR

    return uses


def uses_a_wrapper() -> Any:
    def uses(x: torch.Tensor) -> torch.Tensor:
        return WRAPPED(x)

    return uses


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (uses_a_tensor(), "provider mine: it uses TENSOR, a Tensor, which kbench cannot write to a file"),
        (uses_a_wrapper(), "WRAPPED was wrapped after its definition; put the decorator"),
        (lambda x: x, "is a lambda; define it with def"),
        (functools.partial(uses_a_tensor()), r"is not a function \(its type is partial\); write a def that calls it"),
        ("softmax", r"is not a function \(its type is str\)"),
        (eval("lambda x: x"), "cannot be read"),
    ],
)
def test_what_cannot_be_sent_to_a_worker_is_refused(function: Any, message: str) -> None:
    with pytest.raises(kbench.ConfigError, match=message):
        text(function)


def test_a_function_alone_is_refused() -> None:
    with pytest.raises(kbench.ConfigError, match=r"provider uses: put the function into a list"):
        kbench.run(SMALL, uses_a_tensor())  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_function_of_a_notebook_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x

    frame = kbench.run(SMALL, {"mine": local("helper"), "wrong": wrong}, only="mine,wrong", sets="N=8", sessions=2)
    rows = frame[frame["role"] == "provider"]
    assert list(zip(rows["provider"], rows["session"], rows["status"], strict=True)) == [
        ("mine", 0, "ok"), ("wrong", 0, "wrong"), ("mine", 1, "ok"), ("wrong", 1, "wrong"),
    ]  # fmt: skip
    assert (tmp_path / "results" / "softmax.csv").exists()
    assert rows["round_ms"].iloc[0] == (rows["ms"].iloc[0],)
