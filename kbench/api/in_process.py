"""Measures functions of a notebook in the notebook's own process. One that crashes or hangs takes the notebook with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch

from kbench.contract import registry
from kbench.contract.origin import registering_for
from kbench.errors import ConfigError, ExecutionError
from kbench.execute.executor import Executor, Finished
from kbench.execute.progress import PlainProgress
from kbench.measure.case import CaseRun
from kbench.measure.catalog import make_catalog
from kbench.measure.correctness.operator_trial import attempt
from kbench.measure.instruments import Instruments
from kbench.measure.launches.recorder import LaunchRecorder
from kbench.measure.machine.device import Device
from kbench.measure.machine.interpreter import prepare_interpreter
from kbench.measure.steps import DeviceLost, Steps
from kbench.measure.tampering.guard import Guard
from kbench.plugins import load_plugins
from kbench.protocol import CallRecorded, Message, Rows, Task, decode, encode

NOTEBOOK = "the notebook"
"""Stands for the plug-in of the functions."""


class InProcess(Executor):
    """Measures tasks on the current device, one after another. `functions` are providers of the operator until `stop`."""

    def __init__(self, plugins: Sequence[str], operator: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._threads, self._variables = torch.get_num_threads(), dict(os.environ)
        self._device = Device()
        self._device.use_threads(None)
        if not self._device.accelerated and _interprets_triton():
            os.environ["TRITON_INTERPRET"] = "1"  # `stop` puts the variables back
        self._guard = Guard()  # before plug-ins are imported
        self._recorder, self._instruments = LaunchRecorder(self._device), Instruments(self._device)
        failures = load_plugins(plugins)
        operator_exists = operator in registry.operator_names()  # if not, the config says so
        self._providers = registry.operator(operator).providers if operator_exists else {}
        self._before = dict(self._providers)
        try:
            for name, function in functions.items() if operator_exists else ():
                self._register(operator, name, function)
            self.catalog = make_catalog(self._device, self._instruments.telemetry, failures)
            self.devices = [self.catalog.device]
        except BaseException:
            self.stop()
            raise

    def _register(self, operator: str, name: str, function: Callable[..., Any]) -> None:
        """A decorator in the notebook may have registered the function already; it may also be an older version of it."""
        self._providers.pop(name, None)
        try:
            with registering_for(NOTEBOOK):
                registry.operator(operator).provider(name)(function)
        except (TypeError, ValueError) as error:
            raise ConfigError.at(f"provider {name}", str(error)) from None

    def try_operator(self, task: Task) -> None:
        fault = attempt(registry.operator(task.case.operator), task.case, self._device, task.settings.seed)
        if fault:
            raise ConfigError.at(fault.where, fault.what)

    def measure(self, task: Task, display: PlainProgress) -> Finished:
        calls: list[CallRecorded] = []

        def emit(event: Message) -> None:
            if isinstance(event, CallRecorded):
                calls.append(event)
            display.event(event, "")

        display.begin(task, "")
        self._device.use_threads(task.settings.threads)
        operator = registry.operator(task.case.operator)
        self._guard.watch(operator)
        steps = Steps(self._device, emit, self._guard)
        try:
            rows = CaseRun(operator, task, self._instruments, steps, self._recorder).run()
            measured = decode(encode(Rows(tuple(rows)), ""), "")  # as from a worker: its text is printable
        except DeviceLost as lost:
            raise ExecutionError(f"{lost.contender.name}: {lost.contender.reason}; start Python again") from None
        self._device.release_case()
        assert isinstance(measured, Rows)
        return Finished(task, list(measured.rows), self.catalog.device, self.catalog.machine, calls=tuple(calls))

    def stop(self) -> None:
        """Take the functions from the operator, and put the settings of this process back."""
        self._providers.clear()
        self._providers.update(self._before)
        torch.set_num_threads(self._threads)
        os.environ.clear()
        os.environ.update(self._variables)


@cache
def _interprets_triton() -> bool:
    """Whether Triton's kernels run in its interpreter here from now on. They do not if triton was imported without it."""
    if not find_spec("triton") or ("triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1"):
        return False
    prepare_interpreter()
    return True
