"""Times the contenders of a case in rounds, each in a shuffled order."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from statistics import median

from kbench.measure.contender import Contender
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.machine.telemetry import Telemetry
from kbench.measure.steps import Steps
from kbench.measure.timing.timer import Timer
from kbench.protocol import Measure, RoundTimed
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Control, Status

CONTROL_WARMUP_MS = 5.0
"""Controls are warmed up for at most this long: the baseline and torch's copy have run many times before."""


class Rounds:
    """Times contenders whose calls and samplers are ready. `order` is the random generator that shuffles each round.

    Unless the timer replays calls, the inputs have other addresses in every round: a result that is stored by address is of no
    use.
    """

    def __init__(
        self,
        contenders: Sequence[Contender],
        *,
        baseline: Contender | None,
        inputs: SharedInputs,
        steps: Steps,
        telemetry: Telemetry,
        settings: Measure,
        timer: Timer,
        order: random.Random,
    ) -> None:
        self.contenders, self.baseline, self.inputs, self.steps = contenders, baseline, inputs, steps
        self.telemetry, self.settings, self.kind, self.order = telemetry, settings, timer_kind(timer.name), order

    def run(self) -> None:
        """Wait until the clock has settled, then measure the rounds."""
        self.telemetry.settle(self._work)
        number = 0
        while order := self._taking_part(number):
            self.order.shuffle(order)
            if self.kind.launches:
                self.inputs.place(1)
            for contender in order:
                with self.steps.step(contender, "time", self.settings.timeout_s):
                    self._take(contender)
                self._after(contender)
            number += 1

    def _taking_part(self, number: int) -> list[Contender]:
        """The contenders that take part in this round: all of them in the first `rounds` rounds.

        With a `precision`, those that are not known this well go on, but not beyond `max_ms`. A contender that has left does
        not come back, because only its own rounds and those of the baseline beside them decide. The baseline goes on with the
        last of the others, which are compared with it round by round. The copy needs no more than the first rounds.
        """
        precision, running = self.settings.precision, self._running()
        if precision is not None:
            max_ms = self.settings.max_ms
            running = [contender for contender in running if not contender.rounds or contender.spent_ms < max_ms]
        if number < self.settings.rounds or precision is None:
            return running if number < self.settings.rounds else []
        imprecise = [
            contender
            for contender in running
            if contender.name != Control.COPY and not self._is_precise(contender, precision)
        ]
        compared = any(contender is not self.baseline for contender in imprecise)
        return [
            contender for contender in running if contender in imprecise or (compared and contender is self.baseline)
        ]

    def _is_precise(self, contender: Contender, precision: float) -> bool:
        reached = contender.precision(self.baseline, self.kind.resolution_ms)
        return reached is not None and reached.enough(precision)

    def _running(self) -> list[Contender]:
        return [contender for contender in self.contenders if contender.running]

    def _work(self, seconds: float) -> None:
        """Run all contenders for about this long in total."""
        running = self._running()
        for contender in running:
            with self.steps.step(contender, "time", self.settings.timeout_s):
                self._occupy(contender, seconds / len(running))
                blame_for_changes(contender, self.inputs)
            self._after(contender)

    def _after(self, contender: Contender) -> None:
        """Restore the inputs if the contender has failed: it may have changed them."""
        if not contender.running:
            self.inputs.restore()

    def _occupy(self, contender: Contender, seconds: float) -> None:
        """Call one contender over and over for this long."""
        run = contender.calls[0].run
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            run()
            self.steps.device.synchronize()

    def _take(self, contender: Contender) -> None:
        """Take the samples of one round. The first one warms the contender up."""
        if self.kind.launches and contender.renew_calls:
            contender.renew_calls()
        assert contender.sample is not None
        longest_ms = CONTROL_WARMUP_MS if contender.control else math.inf
        warmup_ms = 0.0 if contender.rounds else min(self.settings.warmup_ms, longest_ms)
        before = self.telemetry.read()
        start = time.perf_counter()
        samples = contender.sample(warmup_ms, min(self.settings.rep_ms, contender.longest_ms))
        contender.spent_ms += (time.perf_counter() - start) * 1e3
        if contender.spot_check:
            contender.spot_check.after()
        contender.readings += [before, self.telemetry.read()]
        blame_for_changes(contender, self.inputs)
        if contender.running:
            contender.rounds.append(samples.ms)
            if samples.gaps_ms:
                contender.gaps_ms.append(median(samples.gaps_ms))
            self.steps.emit(RoundTimed(contender.configuration_name, median(samples.ms)))


def blame_for_changes(contender: Contender, inputs: SharedInputs) -> None:
    """End the contender that ran last if it has changed a shared input that it may not change. Restores the inputs for the
    others."""
    if fault := inputs.repaired(contender.mutates):
        contender.end(Status.WRONG, fault)
