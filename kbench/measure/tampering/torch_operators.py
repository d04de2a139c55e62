"""Which operators of torch a call runs. A provider that runs those of the baseline is the baseline under another name.

The operators are seen where torch dispatches them, below its functions, their aliases and autograd. A kernel that is launched
from Python or C++ is not an operator, and neither is what torch.compile has fused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from kbench.measure.machine.dynamo import OperatorMode, writes_of
from kbench.text.exception_text import describe_exception

Prepared = TypeVar("Prepared")

ALLOCATIONS = ("aten.empty", "aten.new_empty")
"""The beginnings of the names of operators that only allocate."""

SHOWN = 4
"""How many operators a reason names."""

SMALL_SHARE = 0.01
"""A result of fewer bytes than this share of the baseline's largest one is small: a provider may add a tiny operator."""


class OperatorCall(NamedTuple):
    """An operator that torch has dispatched, and the bytes of the tensors that it returned."""

    name: str
    result_bytes: int


class _Recorder(OperatorMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[OperatorCall] = []

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled functions run as compiled. By default they run eagerly in a mode."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(func).removesuffix(".default")
        returned = func(*args, **(kwargs or {}))
        if not name.startswith(ALLOCATIONS) and not _is_view(func, name):
            results = returned if isinstance(returned, (list, tuple)) else [returned]
            result_bytes = sum(x.numel() * x.element_size() for x in results if isinstance(x, Tensor))
            self.calls.append(OperatorCall(name, result_bytes))
        return returned


def _is_view(func: Any, name: str) -> bool:
    """Whether an operator only looks at its input in another way, as transposing does."""
    in_place = torch.Tag.inplace_view in getattr(func, "tags", ())
    return in_place or name == "aten._unsafe_view" or False in writes_of(func)


@dataclass(frozen=True)
class TorchOperators:
    """The operators of torch that a call runs, in order, without those that only allocate or make a view.

    prepared  those that prepare the call: the forward pass in mode `backward`
    called    those of the call itself
    fault     why they are not known; empty if they are
    """

    prepared: tuple[OperatorCall, ...] = ()
    called: tuple[OperatorCall, ...] = ()
    fault: str = ""

    def same_as(self, baseline: TorchOperators) -> bool:
        """Whether a call runs all operators of the baseline, at least one, and beside them only some with small results.

        Different forward functions may have the same derivative, so a forward pass has to be that of the baseline, too.
        """
        if not self.called or not _same(self.called, baseline.called):
            return False
        return not self.prepared or _same(self.prepared, baseline.prepared)

    def __str__(self) -> str:
        more = len(self.called) - SHOWN
        return ", ".join(call.name for call in self.called[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _same(calls: Sequence[OperatorCall], of_baseline: Sequence[OperatorCall]) -> bool:
    """Whether large results have the same operators in order, and small ones include the baseline's."""
    least_bytes = SMALL_SHARE * max((call.result_bytes for call in of_baseline), default=0)
    large, large_of_baseline = (
        [call.name for call in side if call.result_bytes >= least_bytes] for side in (calls, of_baseline)
    )
    small, small_of_baseline = (
        Counter(call.name for call in side if call.result_bytes < least_bytes) for side in (calls, of_baseline)
    )
    return large == large_of_baseline and small_of_baseline <= small


def recorded(prepare: Callable[[], Prepared], run: Callable[[Prepared], object]) -> tuple[Prepared, TorchOperators]:
    """Prepare a call and make it. Returns what `prepare` returned, and the operators of both.

    Not all code runs while its operators are recorded. That is no fault of the provider, so an exception of `run` becomes the
    `fault` of the result. Raises what `prepare` also raises without recording.
    """
    preparing, calling = _Recorder(), _Recorder()
    try:
        with preparing:
            prepared = prepare()
    except Exception as error:  # noqa: BLE001  the provider's code may raise anything
        return prepare(), TorchOperators(fault=describe_exception(error))
    try:
        with calling:
            run(prepared)
    except Exception as error:  # noqa: BLE001
        return prepared, TorchOperators(fault=describe_exception(error))
    return prepared, TorchOperators(tuple(preparing.calls), tuple(calling.calls))
