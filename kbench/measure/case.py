"""One case: check every provider, time the correct ones in shuffled rounds, check again, and make the rows."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real

from kbench.contract.operator import Operator
from kbench.measure.catalog import does_not_fit
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Preparer
from kbench.measure.correctness.check import MadeCall, judge_call, poison, run_checked
from kbench.measure.correctness.definition import Definition, OperatorFault, case_hash
from kbench.measure.correctness.expected import CONSTANT, Expected, keep_bytes
from kbench.measure.correctness.inputs import Inputs, SharedInputs
from kbench.measure.experiment import Experiment, repeat
from kbench.measure.instruments import Instruments
from kbench.measure.launches.recorder import LaunchRecorder
from kbench.measure.machine.capture import without_garbage_collection
from kbench.measure.machine.device import out_of_memory
from kbench.measure.machine.dynamo import compiled_parts
from kbench.measure.machine.interpreter import interpreter_probe
from kbench.measure.rows import make_rows
from kbench.measure.salting import SpotCheck
from kbench.measure.steps import Steps
from kbench.measure.tampering.torch_operators import recorded
from kbench.measure.timing.timer import measure_launch_ms, measure_stages
from kbench.protocol import RECORD, CallRecorded, Task
from kbench.results.case import INTEGER_LIMIT, ITEMSIZE
from kbench.results.row import Row
from kbench.results.vocabulary import Status


class CaseRun(Experiment):
    """Measures one case in this process: that of a task. `first`, `second` and `last` are what a call must deliver for three
    sets of input values; the shared inputs hold the first. Without a recorder, no kernels are recorded.
    """

    first: Expected
    second: Expected
    last: Expected

    def __init__(
        self,
        operator: Operator,
        task: Task,
        instruments: Instruments,
        steps: Steps,
        recorder: LaunchRecorder | None = None,
    ) -> None:
        super().__init__(instruments, steps, task.settings, task.session, task.case)
        self.operator = operator
        self.recorder = recorder if recorder and recorder.works and self.settings.kernels else None
        self.contenders = [
            Contender.of(index, configuration, operator) for index, configuration in enumerate(task.configurations)
        ]
        named = [contender for contender in self.contenders if contender.configuration_name == task.baseline]
        self.baseline = named[0] if named else None
        self.definition = Definition(operator, task.case)
        self.stateful = False  # whether a provider is wrong in the first call of this process only

    def run(self) -> list[Row]:
        """Measure the case. Returns a row per configuration, then those of the controls. Raises DeviceLost."""
        try:
            return self._run()
        finally:
            for contender in self.contenders:
                contender.let_go()

    def _run(self) -> list[Row]:
        fault: tuple[Status, str] | None = None
        try:
            self.begin()
        except OperatorFault as error:
            fault = Status.ERROR, str(error)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            fault = Status.OOM, does_not_fit(self.operator, self.case, error)
        for contender in self.contenders:
            if fault:
                contender.end(*fault)
            else:
                self.prepare(contender)
                self.shared.restore()
        timed = [contender for contender in self.contenders if contender.running]
        if timed:
            self.measure_ceilings()
            timed += self.add_controls()
            self.make_ready(timed)
            self.time(timed)
            self.shared.keep_first()
            for contender in timed:
                if contender.control:
                    contender.let_go()  # the checks need the memory
            for contender in timed:
                self.check_again(contender)
            for contender in timed:
                self.record(contender)
        return self.rows()

    def begin(self) -> None:
        """Draw the inputs and call the functions of the operator before any provider runs. Raises OperatorFault."""
        drawn = Inputs(self.definition, self.device, self.settings.seed)
        self.shared = SharedInputs(self.definition.input_names, drawn.draw("timed"))
        self.work = self.definition.work(self.shared.pristine)
        self.case_hash = case_hash(self.definition, self.work)
        sets = [self.shared.pristine, drawn.draw("second"), drawn.draw("last")]
        keep = keep_bytes(self.device.free_bytes())
        self.first, self.second, self.last = (Expected(self.definition, values, keep) for values in sets)
        # now: no row waits for it, and a failure is the operator's
        for expected in (self.first, self.second, self.last):
            self.definition.check_shapes(expected.shapes)
        if self.first.same_as(self.second) and self.first.same_as(self.last):
            self.weakness = CONSTANT

    def prepare(self, contender: Contender) -> None:
        """Build one provider and check it on two sets of values. Afterwards it runs, or has ended with a reason."""
        tensors = self.shared.tensors
        with self.steps.step(contender, "build", self.settings.build_timeout_s):
            provider = contender.admitted(self.case, self.device.type)
            if provider is None:
                return
            if provider.moved_bytes:
                count = provider.moved_bytes(self.case)
                if not isinstance(count, Real) or not 0 <= count < INTEGER_LIMIT:
                    problem = f"moved_bytes= returned {count!r:.80}"
                    raise ValueError(f"{problem}; it must return a number from 0 to 2^63 - 1")
                contender.moved_bytes = int(count)
            start = time.perf_counter_ns()
            contender.preparer = preparer = Preparer(self.definition, provider, contender.params)
            interpreted = interpreter_probe()
            poison(self.first, self.device)
            first_call = self.call(preparer)
            contender.build_ms = (time.perf_counter_ns() - start) / 1e6
        if not contender.running:
            return
        with self.steps.step(contender, "check", self.settings.timeout_s):
            accuracy = judge_call(self.first, first_call)
            if accuracy.off and self.right_when_repeated(preparer):
                self.stateful = True
                accuracy = replace(accuracy, wrong=f"wrong in the first call only: {accuracy.wrong}")
            contender.judged(accuracy)
            del first_call
            if contender.running:
                repeated = run_checked(self.second, preparer, tensors, self.device)
                contender.judged(repeated, "correct at the first call, then ")
            if contender.running and interpreted():
                contender.end(Status.CHECKED)
            if contender.running:
                with compiled_parts() as contender.compiled:
                    call, contender.operators = recorded(
                        partial(preparer, tensors, self.first.shapes), lambda first_call: first_call.run()
                    )
                contender.launch_ms = measure_launch_ms(call.run, self.device)

    def call(self, preparer: Preparer) -> MadeCall:
        """Make a call on the first set of values."""
        made_call = MadeCall.of(preparer(self.shared.tensors, self.first.shapes), self.shared.tensors)
        self.device.synchronize()
        return made_call

    def right_when_repeated(self, preparer: Preparer) -> bool:
        """Whether a provider whose first call was wrong is right in a second: it keeps something between calls."""
        self.shared.restore()
        return not judge_call(self.first, self.call(preparer)).wrong

    def add_controls(self) -> list[Contender]:
        """Returns those that take part in the rounds."""
        count, baseline = len(self.contenders), self.baseline
        copy, empty = self.copy(count), self.empty(count + 1)
        repeats = [repeat(count + 2, baseline)] if baseline and baseline.preparer else []
        self.contenders += [copy, empty, *repeats]
        return [copy, *repeats]

    def make_ready(self, contenders: Sequence[Contender]) -> None:
        """Give the providers, and the repeat of one, their calls and samplers, if the timer can time them."""
        generator = random.SystemRandom()
        placed = False  # in the step of the first contender that needs it: memory may run out
        stages: Mapping[str, float] | None = None  # the same for all contenders
        for contender in contenders:
            if contender.preparer is None:
                continue
            with self.steps.step(contender, "build", self.settings.build_timeout_s):
                if not placed:
                    self.shared.place(self.timer.sets(self.work.call_bytes))
                    placed = True
                seed, replayed = random.Random(generator.getrandbits(256)), not self.kind.launches
                contender.spot_check = SpotCheck(self.first, self.shared, self.second.inputs, seed, replayed=replayed)
                contender.renew_calls = partial(self.renew_calls, contender)
                contender.renew_calls()
                self.blame_for_changes(contender)
                if self.settings.stages and contender.running and not contender.control:
                    stages = measure_stages(self.device, self.shared.tensors) if stages is None else stages
                    contender.stages = stages
            if not contender.running:
                self.shared.restore()

    def renew_calls(self, contender: Contender) -> None:
        """Prepare the calls of a contender, and its sampler, where the inputs lie now."""
        assert contender.preparer and contender.spot_check
        # thousands of new calls would make Python look for garbage several times
        with without_garbage_collection():
            with self.timer.preparing():
                contender.calls = [contender.preparer(tensors, self.first.shapes) for tensors in self.shared.sets]
            runs = contender.spot_check.use(contender.calls)
            contender.sample = self.timer.ready(runs, contender.launch_ms, contender.spot_check.before)

    def check_again(self, contender: Contender) -> None:
        """Check what timed calls returned, then the provider itself on new values in the timed buffers."""
        preparer = contender.preparer
        if contender.control or not contender.running or preparer is None:
            return
        with self.steps.step(contender, "check", self.settings.timeout_s):
            if contender.spot_check and (fault := contender.spot_check.fault()):
                contender.end(Status.WRONG, fault)
                return
            accuracy = run_checked(self.last, preparer, self.shared.tensors, self.device)
            contender.judged(accuracy, "correct before timing, wrong after it: ")

    def record(self, contender: Contender) -> None:
        """Record what a call launches. It comes last, so that no timed call of the case is affected."""
        preparer, provider = contender.preparer, contender.provider
        if not self.recorder or preparer is None or provider is None:
            return
        self.shared.restore()
        tensors, shapes = self.shared.tensors, self.first.shapes
        with self.steps.step(contender, RECORD, self.settings.timeout_s):
            contender.recorded = self.recorder.record(lambda: preparer(tensors, shapes).run, provider.requires)
        recorded = contender.recorded
        if recorded.launched:
            self.steps.emit(CallRecorded(recorded.launched, self.recorder.limits, recorded.code_files))

    def rows(self) -> list[Row]:
        dtypes = [tensor.dtype_in(self.case) for tensor in self.operator.inputs.values()]
        self.shorter = self.case.itemsize > 2 or any(ITEMSIZE[dtype] < self.case.itemsize for dtype in dtypes)
        return make_rows(self, self.contenders)
