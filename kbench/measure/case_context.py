"""What all rows of a case share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kbench.measure.machine.device import Device
from kbench.measure.timing.timer import Timer
from kbench.results.case import Case


@dataclass(frozen=True)
class CaseContext:
    """What all rows of a case share.

    flops           floating-point operations of a call; None if the operator does not state them
    shorter         whether a provider may compute in a shorter format than the case's dtype (see flags.py)
    ceiling_tflops  TFLOP/s of the best large matrix product of the case's dtype
    prefill_ms      the longest that the timer can keep the device busy before a launch
    cold            whether calls really found a cold cache
    common          columns with the same value in every row
    unchecked       whether there is no reference to check the providers with
    calls           how many calls a round makes, as Timer.calls; None if that is not known
    """

    case: Case
    call_bytes: int
    flops: int | None
    shorter: bool
    baseline: int | None
    cache_bytes: int | None
    ceiling_gbps: float | None
    ceiling_tflops: float | None
    peak_gbps: float | None
    accelerated: bool
    prefill_ms: float
    cold: bool
    common: dict[str, Any]
    unchecked: bool = False
    calls: Callable[[int, int], int] | None = None

    @classmethod
    def of(
        cls,
        case: Case,
        device: Device,
        timer: Timer,
        *,
        call_bytes: int = 0,
        flops: int | None = None,
        ceilings: tuple[float | None, float | None, float | None] = (None, None, None),
        common: dict[str, Any],
        **more: Any,
    ) -> CaseContext:
        """That of a case which a timer times on a device. `ceilings` are GB/s and TFLOP/s of the session, and the peak GB/s
        that the device states. `common` has columns beside those that follow from the others, and `more` further fields."""
        ceiling_gbps, ceiling_tflops, peak_gbps = ceilings
        return cls(
            case=case,
            call_bytes=call_bytes,
            flops=flops,
            ceiling_gbps=ceiling_gbps,
            ceiling_tflops=ceiling_tflops,
            peak_gbps=peak_gbps,
            cache_bytes=device.cache_bytes if call_bytes else None,
            accelerated=device.accelerated,
            prefill_ms=timer.prefill_ms,
            cold=timer.cold(call_bytes),
            common={"timer": timer.name, "device": device.name} | common,
            **more,
        )

    @property
    def light_ms(self) -> float | None:
        """The shortest possible time of a call in ms, from the ceilings; None if one that it needs is not known."""
        if not self.ceiling_gbps or (self.flops and not self.ceiling_tflops):
            return None
        bytes_ms = self.call_bytes / self.ceiling_gbps * 1e-6
        return (
            max(bytes_ms, self.flops / self.ceiling_tflops * 1e-9) if self.flops and self.ceiling_tflops else bytes_ms
        )
