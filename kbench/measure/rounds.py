"""Times the contenders of a case in rounds, each in a shuffled order."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from statistics import median

from kbench.measure.contender import Contender
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.machine.settling import SettledClock
from kbench.measure.machine.telemetry import Telemetry
from kbench.measure.steps import Steps
from kbench.protocol import MeasureSettings, RoundTimed
from kbench.results.vocabulary import Status


class Rounds:
    """Times contenders whose buffers and samplers are ready. `order` is the random generator that shuffles each round."""

    def __init__(
        self,
        contenders: Sequence[Contender],
        *,
        inputs: SharedInputs,
        steps: Steps,
        telemetry: Telemetry,
        clock: SettledClock,
        settings: MeasureSettings,
        order: random.Random,
    ) -> None:
        self.contenders, self.inputs, self.steps = contenders, inputs, steps
        self.telemetry, self.clock, self.settings, self.order = telemetry, clock, settings, order

    def run(self) -> None:
        """Wait until the clock has settled, then measure the rounds."""
        self.clock.settle(self._work)
        for number in range(self.settings.rounds):
            order = self._running()
            self.order.shuffle(order)
            for contender in order:
                with self.steps.step(contender, "time", self.settings.timeout_s):
                    self._take(contender, number)
                self._after(contender)

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

    def _take(self, contender: Contender, number: int) -> None:
        """Take the samples of one round. The first one warms the contender up."""
        assert contender.sample is not None
        warmup_ms = 0.0 if contender.rounds else self.settings.warmup_ms
        before = self.telemetry.read()
        samples = contender.sample(warmup_ms, min(self.settings.rep_ms, contender.longest_ms))
        contender.readings += [before, self.telemetry.read()]
        blame_for_changes(contender, self.inputs)
        if contender.running:
            contender.rounds.append(samples)
            self.steps.emit(RoundTimed(contender.index, contender.configuration_name, number, median(samples)))


def blame_for_changes(contender: Contender, inputs: SharedInputs) -> None:
    """End the contender that ran last if it has changed a shared input that it may not change. Restores the inputs for the
    others."""
    if contender.restore:
        contender.restore()
    if fault := inputs.repaired(contender.mutates):
        contender.end(Status.WRONG, fault)
