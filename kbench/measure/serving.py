"""The work of a worker process: it answers the requests of its parent, until the parent is gone."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from threading import Thread
from typing import Any

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
from kbench.measure.other_worker import CallsOnSets, OtherWorker, call_for_other, opened, read_clock
from kbench.measure.steps import DeviceLost, Steps
from kbench.measure.tampering.guard import Guard
from kbench.plugins import load_plugins
from kbench.protocol import (
    CallRequest,
    Catalog,
    CatalogRequest,
    CheckRequest,
    ClockReading,
    ClockRequest,
    Delivered,
    DeviceFailed,
    Fault,
    Message,
    Request,
    RequestDone,
    Rows,
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
"""How long a plug-in may take to be imported, a provider to say whether it is available, and Triton to hash its library."""

SOURCE_LIMIT_S = 3600.0
"""How long a benchmark problem may take to be loaded."""


class Server:
    """Answers the lines of requests in a queue, on a pipe to the parent, given by its descriptor. `hashing` is the thread in
    which Triton hashes its library, if there is an accelerator."""

    def __init__(self, requests: queue.Queue[bytes], pipe: int, hashing: Thread) -> None:
        self._requests, self._pipe = requests, pipe
        self._process, self._secret, self._folder, self._hashing = os.getpid(), "", "", hashing
        self._on_sets: CallsOnSets | None = None  # of the last CallRequest
        self._device = Device()
        self._device.set_up()
        if not self._device.accelerated:
            _limit_host_memory(self._device.free_bytes())
        registered = [registry.operator(name) for name in registry.operator_names()]
        self._guard = Guard()  # after all modules that these import, and before any plug-in
        for operator in registered:
            self._guard.watch(operator)
        self._recorder = LaunchRecorder(self._device)
        self._instruments = Instruments(self._device)
        self._steps = Steps(self._device, self._send, self._guard)

    def serve(self) -> None:
        """Answer requests. Returns when the device is lost."""
        device = self._device
        answers: dict[type[Request], Callable[[Any], Message | None]] = {
            CatalogRequest: self._catalog,
            Task: self._measure,
            TrialRequest: self._try_operator,
            CheckRequest: self._check,
            ClockRequest: self._clock,
            CallRequest: self._call,
        }
        while True:
            self._secret, request = decode_request(self._requests.get())
            try:
                if answer := answers[type(request)](request):
                    self._send(answer)
                if self._on_sets is None and not isinstance(request, CatalogRequest):
                    device.release_case()
            except OperatorFault as fault:
                if not device.healthy():
                    self._send(DeviceFailed(Status.ERROR, fault.what))
                    return
                self._send(Fault(fault.where, fault.what))
                device.release_case()
            except DeviceLost as lost:
                assert lost.contender.status is not None
                self._send(DeviceFailed(lost.contender.status, lost.contender.reason))
                return
            except RuntimeError as error:
                if device.healthy():
                    raise
                # a kernel still ran after its step
                self._send(DeviceFailed(Status.ERROR, describe_exception(error)))
                return
            self._send(RequestDone())
            if isinstance(request, CatalogRequest) and device.accelerated and not self._folder:
                self._hashing.join(IMPORT_LIMIT_S)  # a provider is blamed for threads that work while it runs
                # a first launch, which needs it, reports that
                with suppress(AttributeError, ImportError, OSError):
                    import_module("triton.experimental.gluon.nvidia.hopper")

    def _catalog(self, request: CatalogRequest) -> Catalog:
        self._folder = request.folder
        if request.needed_bytes:
            self._device.try_out(request.needed_bytes)
            self._device.release()
        failures = load_plugins(() if request.source else request.plugins, self._running)
        config: dict[str, Any] | None = None
        if request.source:
            with self._running("", "load", request.source):
                loaded = load_source(request.source, request.plugins)
            if isinstance(loaded, Fault):
                failures.append(loaded)
            else:
                config = loaded
        for name in registry.operator_names():
            self._guard.watch(registry.operator(name))
        running = None if request.folder else self._running  # the other worker has the providers
        catalog = make_catalog(self._device, self._instruments.telemetry, failures, running)
        return replace(catalog, config=config)

    def _measure(self, task: Task) -> Rows:
        run = CaseRun(self._begin(task), task, self._instruments, self._steps, self._recorder)
        return Rows(tuple(run.run()), run.stateful)

    def _try_operator(self, request: TrialRequest) -> Fault | None:
        task = request.task
        fault = attempt(self._begin(task), task.case, self._device, task.settings.seed)
        return Fault(fault.where, fault.what) if fault else None

    def _check(self, request: CheckRequest) -> None:
        elsewhere = self._other_worker(request.task).deliver if self._folder else None
        check_edges(self._begin(request.task), request, self._steps, elsewhere)

    def _clock(self, request: ClockRequest) -> ClockReading:
        return read_clock(self._begin(request.task), request, self._other_worker(request.task), self._steps)

    def _call(self, request: CallRequest) -> Delivered:
        operator = self._begin(request.task)
        if self._on_sets is None or self._on_sets.request != request:
            self._on_sets = None
            try:
                memory = opened(request.memory)
            except (OSError, RuntimeError) as error:
                return Delivered(Status.ERROR, describe_exception(error), opened=False)
            if not request.sets:
                return call_for_other(operator, request, memory, self._steps)
            self._on_sets = CallsOnSets(operator, request, memory, self._steps)
        return self._on_sets.deliver()

    def _send(self, message: Message) -> None:
        if os.getpid() != self._process:
            os._exit(1)  # a child that a provider has forked, and that has returned to kbench's code
        unsent = memoryview(encode(message, self._secret))
        while unsent:
            unsent = unsent[os.write(self._pipe, unsent) :]

    @contextmanager
    def _running(self, plugin: str, step: str, name: str) -> Iterator[None]:
        """Tell the parent which plug-in or provider runs inside: it may hang or end the process."""
        with self._steps.announced(name, step, SOURCE_LIMIT_S if step == "load" else IMPORT_LIMIT_S):
            self._guard.begin_plugin(plugin)
            yield
            self._guard.end()

    def _begin(self, task: Task) -> Operator:
        """Use the threads of a task from now on. Returns its operator."""
        self._device.use_threads(task.settings.threads)
        return registry.operator(task.case.operator)

    def _other_worker(self, task: Task) -> OtherWorker:
        return OtherWorker(task, self._folder, self._ask_other, self._device)

    def _ask_other(self, request: CallRequest) -> Delivered:
        """Send a request to another worker, through the parent, which limits its steps and answers in any case."""
        self._send(request)
        _, delivered = decode_request(self._requests.get())
        assert isinstance(delivered, Delivered)
        return delivered


def _limit_host_memory(free_bytes: int | None) -> None:
    if sys.platform != "linux" or free_bytes is None:
        return
    import resource

    limit = int(free_bytes * HOST_MEMORY_SHARE)
    # a queueing system may have set it; it cannot be raised
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
