"""One call of do_bench by a script: what it asked for, and what do_bench returns for given samples."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

RETURN_MODES = ("min", "max", "mean", "median", "all")


@dataclass(frozen=True)
class BenchCall:
    """The arguments of `triton.testing.do_bench`, or of `do_bench_cudagraph`.

    fn            the closure to time
    place         `bench.py:31`, the line of the call
    timer         `do_bench` or `do_bench_cudagraph`
    warmup_ms     how long the script runs the closure untimed
    rep_ms        how long it takes samples
    grad_to_none  tensors whose gradient is cleared before each call
    """

    fn: Callable[[], Any]
    place: str
    timer: str = "do_bench"
    warmup_ms: float = 25
    rep_ms: float = 100
    grad_to_none: tuple[Any, ...] = ()
    quantiles: Sequence[float] | None = None
    return_mode: str = "mean"

    def __post_init__(self) -> None:
        if self.return_mode not in RETURN_MODES:
            raise ValueError(
                f"do_bench has no return_mode {self.return_mode!r}; the modes are {', '.join(RETURN_MODES)}"
            )

    def clear_gradients(self) -> None:
        for tensor in self.grad_to_none:
            tensor.grad = None

    def returned(self, samples_ms: Sequence[float]) -> Any:
        """What do_bench returns for these samples: one number, a list of quantiles, or all samples."""
        if self.quantiles is not None:
            found = [quantile(sorted(samples_ms), share) for share in self.quantiles]
            return found[0] if len(found) == 1 else found
        if self.return_mode == "all":
            return list(samples_ms)
        functions: dict[str, Callable[[Sequence[float]], float]] = {
            "min": min,
            "max": max,
            "mean": statistics.mean,
            "median": statistics.median,
        }
        return functions[self.return_mode](samples_ms)


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of sorted samples, with linear interpolation, as do_bench computes it."""
    if not 0 <= share <= 1:
        raise ValueError("quantiles must be between 0 and 1")
    point = share * (len(ordered) - 1)
    lower = int(point)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (point - lower)
