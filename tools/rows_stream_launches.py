"""What rows_stream.py times: large matrices, and launches of the Triton norms on them with and without hints for the caches."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from rows_candidates import replaced
from rows_worker import only_compiling

import kbench
from kbench.kernels.norms import launch
from kbench.kernels.norms.dispatch import forward
from kbench.kernels.norms.dispatch.launches import Launches
from kbench.kernels.norms.dispatch.once import read_once

ELEMENTS = 2**26
"""Of a matrix: 128 MiB in 16 bits, and 256 MiB in float32."""

HINT, COMPILED, COPY = "hint", "torch-compile", "copy_"

Call = Callable[[int], Any]
"""Computes on the matrix of this number."""


class Rows(NamedTuple):
    """Rows of N elements of an operator with so many inputs, as many outputs, and weights."""

    operator: str
    dtype: str
    N: int

    @property
    def name(self) -> str:
        return f"{self.operator}-{self.dtype}-{self.N}"

    @property
    def inputs(self) -> int:
        return 2 if self.operator == "add_rmsnorm" else 1

    @property
    def weights(self) -> int:
        return 2 if self.operator == "layernorm" else 1

    @property
    def torch_dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)  # type: ignore[no-any-return]

    @property
    def mathematics(self) -> Any:
        """Needs Triton."""
        module = importlib.import_module(f"kbench.operators.{self.operator}.triton_mathematics")
        return getattr(module, self.operator.upper())


ROWS = (
    Rows("rmsnorm", "float32", 4096),
    Rows("rmsnorm", "bfloat16", 8192),
    Rows("add_rmsnorm", "bfloat16", 8192),
    Rows("layernorm", "float32", 4096),
    Rows("rmsnorm", "float32", 8192),
    Rows("rmsnorm", "bfloat16", 4096),
    Rows("add_rmsnorm", "bfloat16", 16384),
    Rows("rmsnorm", "float32", 16384),
    Rows("rmsnorm", "bfloat16", 16384),
    Rows("add_rmsnorm", "bfloat16", 5120),
    Rows("add_rmsnorm", "bfloat16", 12288),
)
"""The lengths of docs/kernels.md, the most telling first."""


def plans(rows: Rows, M: int, device: torch.device) -> dict[str, Launches]:
    """The launch with the hint, the one that the dispatch would choose without it, and others of the shape of the first."""
    from rows_stream_kernels import LOADS_PAST_L1, STORES_FIRST

    processors = launch._processors(device)
    shape = (rows.N, rows.torch_dtype.itemsize, rows.mathematics.pivot)
    hinted = read_once(ELEMENTS // rows.N, *shape, rows.inputs, processors._replace(chained=True))
    assert hinted, f"the dispatch has no launch with a hint for {rows.name}"
    step = hinted.steps[0]._replace(programs=M)  # M may be smaller than in a launch with a hint
    packed = step.arguments["PACKED"] and not processors.interpreted  # Triton's interpreter knows no PTX

    def like(policy: str, kernel: str = step.kernel) -> Launches:
        arguments = step.arguments | {"POLICY": policy, "PACKED": packed}
        return hinted._replace(steps=(step._replace(kernel=kernel, arguments=arguments),))

    def none(*_: Any) -> None:
        return None

    with replaced(forward, "read_once", none):
        other = forward.forward_plan.__wrapped__(M, *shape, processors, inputs=rows.inputs)
    return {
        HINT: like("evict_last"),
        "own launch without it": other,
        "no hint": like(""),
        "no hint, stores evict_first": like("", STORES_FIRST),
        "hint, stores evict_first": like("evict_last", STORES_FIRST),
        "no hint, loads .cg": like("", LOADS_PAST_L1),
    }


class Matrices:
    """Inputs and outputs of all cases. Their memory is taken once for each dtype, and each case cuts it into rows."""

    def __init__(self, elements: int, count: int, device: torch.device, drawn: bool) -> None:
        self.elements, self.count, self.device, self.drawn = elements, count, device, drawn
        self._flat: dict[tuple[torch.dtype, str], list[torch.Tensor]] = {}

    def of(self, rows: Rows, kind: str) -> list[tuple[torch.Tensor, ...]]:
        """For each number, the inputs or the outputs: (M, N) matrices."""
        flat = self._flat.setdefault((rows.torch_dtype, kind), [])
        while len(flat) < self.count * rows.inputs:
            flat.append(self._new(rows.torch_dtype, self.elements, kind))
        M = self.elements // rows.N
        cut = [each[: M * rows.N].view(M, rows.N) for each in flat]
        return [tuple(cut[number :: self.count][: rows.inputs]) for number in range(self.count)]

    def weights(self, rows: Rows) -> tuple[torch.Tensor, ...]:
        return tuple(self._new(rows.torch_dtype, rows.N, "inputs") for _ in range(rows.weights))

    def _new(self, dtype: torch.dtype, elements: int, kind: str) -> torch.Tensor:
        found = torch.empty(elements, dtype=dtype, device=self.device)
        return found.normal_() if self.drawn and kind == "inputs" else found


def calls_of(rows: Rows, matrices: Matrices) -> dict[str, Call]:
    """All launches and the peers."""
    inputs, outputs = matrices.of(rows, "inputs"), matrices.of(rows, "outputs")
    weights, M = matrices.weights(rows), matrices.elements // rows.N
    case = kbench.operator(rows.operator).case(rows.dtype, M=M, N=rows.N)
    function = kbench.operator(rows.operator).providers[COMPILED].bind(case, {})

    def ours(plan: Launches, number: int) -> tuple[torch.Tensor, ...]:
        launch.normalise(rows.mathematics, inputs[number], weights, outputs[number], (), 1e-6, plan)
        return outputs[number]

    def compiled(number: int) -> Any:
        return function(*inputs[number], *weights)

    def copy(number: int) -> None:
        for source, target in zip(inputs[number], outputs[number], strict=True):
            target.copy_(source)

    found = {name: partial(ours, plan) for name, plan in plans(rows, M, matrices.device).items()}
    return {**found, COMPILED: compiled, COPY: copy}


def compile_launches(rows: Rows, matrices: Matrices) -> None:
    """Compile what `calls_of` calls, and launch nothing of ours."""
    calls = calls_of(rows, matrices)
    with only_compiling():
        for name, call in calls.items():
            if name not in (COMPILED, COPY):
                call(0)
    calls[COMPILED](0)
