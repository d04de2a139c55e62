"""The work of a worker process: it answers the requests of its parent, until the parent is gone."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from kbench.contract import registry
from kbench.contract.operator import Operator
from kbench.measure.case import CaseRun
from kbench.measure.catalog import make_catalog
from kbench.measure.correctness.definition import OperatorFault
from kbench.measure.correctness.operator_trial import attempt
from kbench.measure.edge_cases import check_edges
from kbench.measure.instruments import Instruments
from kbench.measure.launches.recorder import LaunchRecorder
from kbench.measure.machine.device import Device
from kbench.measure.other_worker import CallsOnSets, OtherWorker, call_for_other, opened
from kbench.measure.outside_clock import read_clock
from kbench.measure.steps import DeviceLost, Steps
from kbench.measure.tampering.guard import Guard
from kbench.plugins import load_plugins
from kbench.protocol import (
    CallRequest,
    CatalogRequest,
    CheckRequest,
    ClockRequest,
    Delivered,
    DeviceFailed,
    Fault,
    Message,
    PluginError,
    Request,
    RequestDone,
    Rows,
    SourceSweep,
    Task,
    TrialRequest,
    decode_request,
    encode,
)
from kbench.results.vocabulary import Status
from kbench.sources import load_source
from kbench.text.exception_text import describe_exception

HOST_MEMORY_SHARE = 0.8
"""Share of the free memory that a worker without an accelerator may take. A provider that allocates without end then
fails before the machine runs out of memory."""

IMPORT_LIMIT_S = 300.0
"""How long a plug-in may take to be imported, and a provider to say whether it is available."""

SOURCE_LIMIT_S = 3600.0
"""How long a benchmark problem may take to be loaded."""


def serve(requests: queue.Queue[bytes], pipe: int) -> None:
    """Answer the lines of requests on a pipe to the parent, given by its descriptor. Returns when the device is lost."""
    process, secret = os.getpid(), ""
    device = Device()
    device.set_up()
    if not device.accelerated:
        _limit_host_memory(device.free_bytes())
    shipped = [registry.operator(name) for name in registry.operator_names()]
    guard = Guard()  # after all modules that these import, and before any plug-in
    for operator in shipped:
        guard.watch(operator)
    recorder = LaunchRecorder(device)
    instruments = Instruments(device)

    def answers(message: Message) -> None:
        if os.getpid() != process:
            os._exit(1)  # a child that a provider has forked, and that has returned to kbench's code
        unsent = memoryview(encode(message, secret))
        while unsent:
            unsent = unsent[os.write(pipe, unsent) :]

    steps = Steps(device, answers, guard)

    @contextmanager
    def running(plugin: str, step: str, name: str) -> Iterator[None]:
        """Tell the parent which plug-in, or which of its providers, runs inside: it may hang or end the process."""
        with steps.announced(name, step, SOURCE_LIMIT_S if step == "load" else IMPORT_LIMIT_S):
            guard.begin_plugin(plugin)
            yield
            guard.end()

    def ask_other(request: CallRequest) -> Delivered:
        """Send a request to another worker, through the parent, which limits its steps and answers in any case."""
        answers(request)
        _, delivered = decode_request(requests.get())
        assert isinstance(delivered, Delivered)
        return delivered

    folder = ""
    on_sets: CallsOnSets | None = None

    def call(operator: Operator, request: CallRequest) -> Delivered:
        """Call a configuration on inputs of another worker."""
        nonlocal on_sets
        if on_sets is None or on_sets.request != request:
            on_sets = None
            try:
                memory = opened(request.memory)
            except (OSError, RuntimeError) as error:
                return Delivered(Status.ERROR, describe_exception(error), opened=False)
            if not request.sets:
                return call_for_other(operator, request, memory, steps)
            on_sets = CallsOnSets(operator, request, memory, steps)
        return on_sets.deliver()

    def answer(request: Request) -> None:
        nonlocal folder
        if isinstance(request, CatalogRequest):
            folder = request.folder
            if request.needed_bytes:
                device.try_out(request.needed_bytes)
                device.release()
            failures = load_plugins(() if request.source else request.plugins, running)
            sweep: SourceSweep | None = None
            if request.source:
                with running("", "load", request.source):
                    loaded = load_source(request.source, request.plugins)
                if isinstance(loaded, PluginError):
                    failures.append(loaded)
                else:
                    sweep = loaded
            for name in registry.operator_names():
                guard.watch(registry.operator(name))
            answers(replace(make_catalog(device, instruments.telemetry, failures, running), sweep=sweep))
            return
        assert not isinstance(request, Delivered)
        task = request if isinstance(request, Task) else request.task
        operator, settings = registry.operator(task.case.operator), task.settings
        device.use_threads(settings.threads)
        if isinstance(request, TrialRequest):
            if fault := attempt(operator, task.case, device, settings.seed):
                answers(Fault(fault.where, fault.what))
            return
        other = OtherWorker(task, folder, ask_other, device)
        if isinstance(request, CallRequest):
            answers(call(operator, request))
        elif isinstance(request, ClockRequest):
            answers(read_clock(operator, request, other, steps))
        elif isinstance(request, CheckRequest):
            elsewhere = other.deliver if folder else None
            skip, without_edges = request.skip, request.without_edges
            check_edges(operator, task, steps, skip=skip, without_edges=without_edges, elsewhere=elsewhere)
        else:
            run = CaseRun(operator, task, instruments, steps, recorder)
            answers(Rows(tuple(run.run()), run.stateful))

    while True:
        secret, request = decode_request(requests.get())
        try:
            answer(request)
            if on_sets is None and not isinstance(request, CatalogRequest):
                device.release_case()
        except OperatorFault as fault:
            if not device.healthy():
                answers(DeviceFailed(Status.ERROR, fault.what))
                return
            answers(Fault(fault.where, fault.what))
            device.release_case()
        except DeviceLost as lost:
            assert lost.contender.status is not None
            answers(DeviceFailed(lost.contender.status, lost.contender.reason))
            return
        except RuntimeError as error:
            if device.healthy():
                raise
            answers(DeviceFailed(Status.ERROR, describe_exception(error)))  # a kernel that still ran after its step
            return
        answers(RequestDone())


def _limit_host_memory(free_bytes: int | None) -> None:
    if sys.platform != "linux" or free_bytes is None:
        return
    import resource

    limit = int(free_bytes * HOST_MEMORY_SHARE)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]  # a queueing system may have set it; it cannot be raised
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
