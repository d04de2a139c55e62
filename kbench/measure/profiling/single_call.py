"""One call of a provider on the inputs of a case, for a profiler or to have its kernels compiled. Nothing is timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kbench.contract.operator import Operator
from kbench.measure.case import CaseInputs, CaseRun
from kbench.measure.contender import Contender
from kbench.measure.definition.operator_calls import OperatorFault
from kbench.measure.launches.recorder import LaunchRecorder
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.machine.telemetry import Telemetry
from kbench.measure.steps import Emit
from kbench.measure.tampering.guard import Guard
from kbench.protocol import RECORD, CallRequest
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.exception_text import message

PROFILED_CALL_LIMIT_S = 500.0
"""How long the call may take under a profiler, which runs each kernel dozens of times."""


def call_once(
    operator: Operator,
    request: CallRequest,
    device: Device,
    telemetry: Telemetry,
    emit: Emit,
    guard: Guard,
    recorder: LaunchRecorder,
) -> Row:
    """Build and check a provider, and call it once more in the range of a profiler, or for its kernels. Returns its row, which
    has no time. Raises DeviceLost when the provider has broken the device."""
    run = CaseRun(
        operator,
        request.case,
        (request.configuration,),
        baseline=None,
        settings=request.settings,
        session=0,
        device=device,
        telemetry=telemetry,
        emit=emit,
        guard=guard,
        recorder=recorder,
    )
    try:
        inputs = run.begin()
    except OperatorFault as fault:
        return run.give_up(Status.ERROR, str(fault))[0]
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return run.give_up(Status.OOM, f"the case's inputs do not fit into memory: {message(error)}")[0]
    [contender] = run.contenders
    run.prepare(contender, inputs)
    if contender.running and request.profiled:
        call_in_range(run, contender, inputs)
    elif contender.running:
        run.record(contender, inputs)
    if contender.running:
        contender.end(Status.CHECKED)
    return run.rows()[0]


def call_in_range(run: CaseRun, contender: Contender, inputs: CaseInputs) -> None:
    """Call a provider once between cudaProfilerStart and cudaProfilerStop. What comes before, such as drawing the inputs and
    preparing the call, is outside."""
    with run.steps.step(contender, RECORD, max(run.settings.timeout_s, PROFILED_CALL_LIMIT_S)):
        assert contender.stage
        call = contender.stage(inputs.shared.tensors, inputs.first.shapes)
        run.device.synchronize()
        with profiler_range(run.device):
            call.run()
            run.device.synchronize()


@contextmanager
def profiler_range(device: Device) -> Iterator[None]:
    """A profiler that was told to wait for its start sees only what runs in here. Does nothing without an accelerator."""
    if not device.accelerated:
        yield
        return
    torch.cuda.profiler.start()
    try:
        yield
    finally:
        torch.cuda.profiler.stop()
