"""What a process measures closures with: its device, its settings, and the file with messages for `kbench run` or `exec`."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from functools import cache, cached_property
from itertools import chain, count
from pathlib import Path

import torch

from kbench.contract.origin import shipped
from kbench.measure.catalog import describe_machine
from kbench.measure.instruments import Instruments
from kbench.measure.machine.device import Device
from kbench.measure.scripts.observation import observe
from kbench.protocol import PROGRAM, ROWS_FILE, SESSION, SETTINGS, Catalog, LineDone, Measure, Message, encode
from kbench.results.timers import default_cache


class Session:
    """What this process measures with.

    settings   how the lines of plots are measured
    number     of the session among those that measure the same script; by default that of the process
    done       the lines that an earlier process of the same script has measured, by plot, label of the point and line
    plot_runs  lines of a plot are being measured
    begun      it has sent a message: there was something to measure
    orders     how many calls outside of all plots each provider had, with the same words
    sees_launches  torch's profiler shows what runs on the device. It has to start in the main thread first
    """

    def __init__(self) -> None:
        self.device = Device()
        self.instruments = Instruments(self.device)
        settings = json.loads(os.environ.get(SETTINGS, "{}"))
        self.settings = Measure.model_validate({"cache": default_cache(self.device.type)} | settings)
        self.number = int(os.environ.get(SESSION, os.getpid()))
        self.program = os.environ.get(PROGRAM, "program")
        self._messages = Path(os.environ[ROWS_FILE]) if ROWS_FILE in os.environ else None
        self.done: dict[tuple[str, str, str], LineDone] = {}
        self.plot_runs = self.begun = False
        self._names = set(shipped())
        self.orders: Counter[tuple[str, ...]] = Counter()
        _, kernels = observe(lambda: torch.zeros(1, device=self.device.torch_device), (), self.device)
        self.sees_launches = self.device.accelerated and bool(kernels)

    def free_name(self, *names: str) -> str:
        """The first name that neither an operator has, nor other results of this process. The last of them may get a number."""
        numbered = (f"{names[-1]}-{number}" for number in count(2))
        name = next(name for name in chain(names, numbered) if name not in self._names)
        self._names.add(name)
        return name

    @cached_property
    def calls_name(self) -> str:
        """The name of the results of calls outside of all plots."""
        return self.free_name(self.program, f"{self.program}-calls")

    def emit(self, message: Message) -> None:
        """Append a message to the parent's file, if there is one. A first one describes the machine."""
        if not self._messages:
            return
        messages = [message]
        if not self.begun:
            self.begun = True
            machine = describe_machine(self.device, self.instruments.telemetry)
            messages.insert(0, Catalog(self.device.info, (), {}, (), machine))
        with self._messages.open("ab", buffering=0) as file:
            file.write(b"".join(encode(sent, str(os.getpid())) for sent in messages))


_session_of = cache(lambda process: Session())
_making = threading.Lock()


def this_session() -> Session:
    """That of this process, made when it is first needed: it starts the device. A fork of a process has one of its own, which
    describes the machine once more: its rows are another session."""
    with _making:  # one for all threads
        return _session_of(os.getpid())
