"""Contenders that are timed beside each other in shuffled rounds, and the controls, which are rows that kbench adds."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import torch

from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call
from kbench.measure.correctness.definition import Work
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.instruments import Instruments, normal_matrix
from kbench.measure.machine.other_load import OtherLoad
from kbench.measure.steps import Steps
from kbench.measure.tampering.guard import ProviderChanges
from kbench.measure.timing.timer import make_timer
from kbench.protocol import Measure
from kbench.results.case import Case
from kbench.results.stamps import now
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Control, Role, Status

CONTROL_WARMUP_MS = 5.0
"""Controls are warmed up for at most this long: the baseline and torch's copy have run many times before."""

COPY_MS = 8.0
"""A round takes samples of the copy for at most this long. Copies of one size differ little: the median of the thirty or more
samples of one such round is known to 0.5 %."""

REPEAT_MS = 16.0
"""The same for the repeat. Fewer samples can only make it differ more from the baseline: the noise floor is never too low."""

COPY_ALIGNMENT = 128
"""The copy control moves a multiple of this many elements: an odd length would deny it 16-byte accesses."""


class Experiment:
    """Times contenders whose calls and samplers are ready: the providers of a case, or the closures of a script.

    shared     the tensors that all contenders share; none in a script
    work       of a call
    shorter    whether a provider may compute in a shorter format than the case's dtype
    unchecked  whether there is no reference to check the providers with
    weakness   why the checks of the case show little; empty if they show enough
    baseline   the contender that ratios refer to, if there is one
    ceilings   of the device; TFLOP/s are those of the best large matrix product of the case's dtype
    """

    work = Work(0, None)
    case_hash = ""
    shorter = unchecked = False
    weakness = ""
    baseline: Contender | None = None
    ceiling_gbps: float | None = None
    ceiling_tflops: float | None = None

    def __init__(self, instruments: Instruments, steps: Steps, settings: Measure, session: int, case: Case) -> None:
        self.instruments, self.device, self.steps = instruments, instruments.device, steps
        self.settings, self.session, self.case = settings, session, case
        self.shared = SharedInputs((), ())
        self.timer, self.kind = make_timer(settings.timer, self.device, settings.cache), timer_kind(settings.timer)
        self._load, self._started_at = OtherLoad(), now()

    def copy(self, index: int) -> Contender:
        """Moves as many bytes as the operator must: the ceiling of the case."""
        call_bytes, dtype = self.work.call_bytes, getattr(torch, self.case.dtype)
        sets = self.timer.sets(call_bytes)
        elements = -(-call_bytes // (2 * self.case.itemsize * COPY_ALIGNMENT)) * COPY_ALIGNMENT
        control = Contender(index, Control.COPY, {}, Role.CONTROL, longest_ms=COPY_MS)
        with self.steps.step(control, "build", self.settings.build_timeout_s):
            sources, targets = (normal_matrix(self.device, dtype, sets, elements) for _ in range(2))
            pairs = zip(sources, targets, strict=True)
            control.calls = [Call(partial(target.copy_, source)) for source, target in pairs]
            control.sample = self.timer.ready([call.run for call in control.calls], None)
        return control

    def empty(self, index: int) -> Contender:
        """Does nothing: the overhead of the timer, measured once for all cases and outside of their rounds."""
        control = Contender(index, Control.EMPTY, {}, Role.CONTROL)
        with self.steps.step(control, "time", self.settings.build_timeout_s):
            rounds, readings = self.instruments.empty(self.timer)
            control.rounds, control.readings = list(rounds), list(readings)
        return control

    def time(self, contenders: Sequence[Contender]) -> None:
        """Wait until the clock has settled, then measure the rounds.

        Unless calls are replayed, the inputs have other addresses in every round, so that no result can be stored by address.
        """
        generator = random.Random(f"{self.settings.seed}/{self.session}/{self.case.key}")
        self.instruments.telemetry.settle(partial(self._occupy, contenders))
        number = 0
        while order := self._taking_part(contenders, number):
            generator.shuffle(order)
            if self.kind.launches:
                self.shared.place(1)
            for contender in order:
                with self.steps.step(contender, "time", self.settings.timeout_s):
                    self._take(contender)
                if not contender.running:  # it may have changed the inputs
                    self.shared.restore()
            number += 1

    def _taking_part(self, contenders: Sequence[Contender], number: int) -> list[Contender]:
        """The contenders that take part in this round: all of them in the first `rounds` rounds.

        With a `precision`, those that are not known this well go on, but not beyond `max_ms`. A contender that has left does
        not come back, because only its own rounds and those of the baseline beside them decide. The baseline goes on with the
        last of the others, which are compared with it round by round. The copy needs no more than the first rounds.
        """
        precision, running = self.settings.precision, [contender for contender in contenders if contender.running]
        if precision is not None:
            max_ms = self.settings.max_ms
            running = [contender for contender in running if not contender.rounds or contender.spent_ms < max_ms]
        if number < self.settings.rounds or precision is None:
            return running if number < self.settings.rounds else []
        baseline, imprecise = self.baseline, []
        for contender in running:
            reached = contender.precision(baseline, self.kind.resolution_ms)
            if contender.name != Control.COPY and not (reached and reached.enough(precision)):
                imprecise.append(contender)
        if baseline in running and baseline not in imprecise and imprecise:
            imprecise.append(baseline)
        return [contender for contender in running if contender in imprecise]

    def _occupy(self, contenders: Sequence[Contender], seconds: float) -> None:
        """Call all contenders over and over, for about this long in total."""
        running = [contender for contender in contenders if contender.running]
        for contender in running:
            with self.steps.step(contender, "time", self.settings.timeout_s):
                end = time.monotonic() + seconds / len(running)
                while time.monotonic() < end:
                    contender.calls[0].run()
                    self.device.synchronize()
                self.blame_for_changes(contender)
            if not contender.running:
                self.shared.restore()

    def _take(self, contender: Contender) -> None:
        """Take the samples of one round. The first one warms the contender up."""
        if self.kind.launches and contender.renew_calls:
            contender.renew_calls()
        assert contender.sample is not None
        longest_ms = CONTROL_WARMUP_MS if contender.control else math.inf
        warmup_ms = 0.0 if contender.rounds else min(self.settings.warmup_ms, longest_ms)
        before = self.instruments.telemetry.read()
        start = time.perf_counter()
        samples = contender.sample(warmup_ms, min(self.settings.rep_ms, contender.longest_ms))
        contender.spent_ms += (time.perf_counter() - start) * 1e3
        if contender.spot_check:
            contender.spot_check.after()
        contender.readings += [before, self.instruments.telemetry.read()]
        self.blame_for_changes(contender)
        if contender.running:
            contender.rounds.append(samples.ms)
            if samples.gaps_ms:
                contender.gaps_ms.append(median(samples.gaps_ms))

    def blame_for_changes(self, contender: Contender) -> None:
        """End a contender that has changed an input that it may not change. Restores the inputs."""
        if fault := self.shared.repaired(contender.mutates):
            contender.end(Status.WRONG, fault)

    def measure_ceilings(self) -> None:
        self.ceiling_gbps = self.instruments.gbps
        self.ceiling_tflops = None if self.work.flops is None else self.instruments.tflops(self.case.dtype)

    def columns(self) -> dict[str, Any]:
        """The columns with the same value in every row."""
        return {
            "case": self.case,
            "case_hash": self.case_hash,
            "session": self.session,
            "timer": self.timer.name,
            "cache": self.settings.cache,
            "device": self.device.name,
            "ceiling_gbps": self.ceiling_gbps,
            "ceiling_tflops": self.ceiling_tflops,
            "other_cores": self._load.cores(),
            "started_at": self._started_at,
        }

    @property
    def cache_bytes(self) -> int | None:
        """The size of the last-level cache; None if it, or how many bytes a call moves, is not known."""
        return self.device.cache_bytes if self.work.call_bytes else None

    @property
    def cold(self) -> bool:
        """Whether calls really found a cold cache."""
        return self.timer.cold(self.work.call_bytes)

    @property
    def light_ms(self) -> float | None:
        """The shortest possible time of a call in ms; None if a ceiling that it needs is not known."""
        call_bytes, flops = self.work
        if not self.ceiling_gbps or (flops and not self.ceiling_tflops):
            return None
        bytes_ms = call_bytes / self.ceiling_gbps * 1e-6
        flops_ms = flops / self.ceiling_tflops * 1e-9 if flops and self.ceiling_tflops else 0.0
        return max(bytes_ms, flops_ms)


def repeat(index: int, baseline: Contender) -> Contender:
    """The baseline once more, with its settings and launch overhead: the timer prepares both alike."""
    return Contender(
        index,
        Control.REPEAT,
        {},
        Role.CONTROL,
        preparer=baseline.preparer,
        calls=baseline.calls,
        sample=baseline.sample,
        launch_ms=baseline.launch_ms,
        longest_ms=REPEAT_MS,
        changes=ProviderChanges(own=dict(baseline.changes.own)) if baseline.changes else None,
    )
