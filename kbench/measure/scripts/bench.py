"""What a process measures its closures with, and where it sends its messages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.contract.origin import shipped
from kbench.measure.catalog import describe_machine
from kbench.measure.instruments import Instruments
from kbench.measure.machine.device import Device
from kbench.measure.scripts.observation import observe
from kbench.protocol import PROGRAM, ROWS_FILE, Catalog, DeviceInfo, Measure, Message, encode
from kbench.results.timers import default_cache


class Bench:
    """The device of a process, what was measured once for all its closures, and its settings.

    settings  how the lines of plots are measured: those that the command line gives
    session   the number of this process among those that measure the same script; by default that of the process
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, session: int | None = None) -> None:
        self.device = Device()
        self.instruments = Instruments(self.device)
        self.settings = Measure.model_validate({"cache": default_cache(self.device.type), **(settings or {})})
        self.session = os.getpid() if session is None else session
        self.program = os.environ.get(PROGRAM, "program")
        self._names, self._begun = set(shipped()), False
        observe(lambda: None, {}, self.device)  # torch's profiler has to start in the main thread first

    def free_name(self, *names: str) -> str:
        """The first name that neither an operator has, nor other results of this process."""
        name = next(name for name in names if name not in self._names)
        self._names.add(name)
        return name

    def emit(self, message: Message) -> None:
        """Append a message to the file that the parent reads, if there is one. A first message describes the machine."""
        path = os.environ.get(ROWS_FILE)
        if not path:
            return
        messages = [message]
        if not self._begun:
            self._begun = True
            device = DeviceInfo(self.device.type, self.device.name, self.device.index, self.device.uuid)
            machine = describe_machine(self.device, self.instruments.telemetry)
            messages.insert(0, Catalog(device, (), {}, (), machine))
        with Path(path).open("ab", buffering=0) as file:
            file.write(b"".join(encode(sent, str(os.getpid())) for sent in messages))
