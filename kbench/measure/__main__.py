"""The worker, started by the parent, which it obeys over stdin and stdout. See protocol.py and execute/worker/.

Requests are JSON objects, one a line: `catalog` (first), `try`, `measure` and `check`. Every request is answered by any number
of messages and then `Done`. Whatever a provider prints goes to stderr. The process ends when its stdin does, so that a
killed parent leaves no worker behind.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from kbench.protocol import Catalog, Done, Fault, Loading, Lost, Message, Rows, encode

Request = dict[str, Any]

PR_SET_PDEATHSIG = 1

HOST_MEMORY_SHARE = 0.8
"""How much of the memory that is free at the start a host-only worker may take: a provider that allocates without end
shall fail, not the machine."""


def main() -> None:
    answers = _claim_stdout()
    requests = _obey_parent()
    faulthandler.enable()
    serve(requests, answers)


class Answers:
    """The pipe to the parent, which is this process's alone: a child that a provider has forked, and that comes back to
    kbench's code instead of ending, is ended here."""

    def __init__(self, file: int) -> None:
        self._file, self._process = file, os.getpid()
        self.secret = ""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    def __call__(self, message: Message) -> None:
        if os.getpid() != self._process:
            os._exit(1)
        left = memoryview(encode(message, self.secret))
        while left:
            left = left[os.write(self._file, left) :]

    def _leave(self) -> None:
        """A child keeps no end of the pipe, or the parent would not see that the worker has ended."""
        with suppress(OSError):  # a provider has closed it
            os.close(self._file)


def serve(requests: queue.Queue[Request], answers: Answers) -> None:
    """Answer requests until the parent goes away."""
    from kbench import registry
    from kbench.measure.case import CaseRun, MeasureSettings
    from kbench.measure.catalog import catalog
    from kbench.measure.correctness.operator_trial import attempt
    from kbench.measure.edge_cases import check_edges
    from kbench.measure.machine.device import Device
    from kbench.measure.machine.sources import find_telemetry
    from kbench.measure.steps import DeviceLost
    from kbench.measure.timing.ceiling import ceiling_gbps
    from kbench.results.row import Case

    device = Device()
    device.set_up()
    if not device.accelerated:
        _limit_host_memory(device.free_bytes())
    reader = find_telemetry(device)
    ceiling: list[float | None] = []  # measured when a session's first case asks for it

    def announce(plugin: str, operator: str = "", provider: str = "") -> None:
        """Tell the parent which plug-in, or which provider of it, runs now: it may hang or end the process."""
        answers(Loading(plugin, operator, provider))

    while True:
        request = requests.get()
        answers.secret = request["secret"]
        if request["request"] == "catalog":
            failures = registry.load_plugins(request["plugins"], request["without"], announce)
            answers(Catalog(catalog(device, reader, failures, announce)))
        else:
            case = Case.from_json(request["case"])
            curves = [(curve["provider"], curve["params"]) for curve in request["curves"]]
            common: dict[str, Any] = {
                "settings": MeasureSettings(**request["settings"]),
                "device": device,
                "telemetry": reader,
                "emit": answers,
            }
            operator = registry.operator(case.operator)
            device.use_threads(request["settings"]["threads"])
            try:
                if request["request"] == "try":
                    if fault := attempt(operator, case, device, request["settings"]["seed"]):
                        answers(Fault(fault.where, fault.what))
                elif request["request"] == "check":
                    check_edges(
                        operator,
                        case,
                        curves,
                        skip=request["skip"],
                        seed=request["settings"]["seed"],
                        build_timeout_s=request["settings"]["build_timeout_s"],
                        device=device,
                        emit=answers,
                    )
                else:
                    ceiling = ceiling or [ceiling_gbps(device)]
                    run = CaseRun(
                        operator,
                        case,
                        curves,
                        baseline=request["baseline"],
                        session=request["session"],
                        ceiling_gbps=ceiling[0],
                        **common,
                    )
                    answers(Rows(tuple(run.run())))
            except DeviceLost as lost:
                assert lost.contender.status is not None
                answers(Lost(lost.contender.status, lost.contender.reason))
                return
            device.release()
        answers(Done())


def _claim_stdout() -> Answers:
    """Keep stdout for the parent and send everything else that is printed, by Python or by C code, to stderr."""
    answers = Answers(os.dup(1))
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def _obey_parent() -> queue.Queue[Request]:
    """Read requests in a thread that ends the process, and all it started, when the parent is gone."""
    if sys.platform == "linux":
        # The thread below needs the interpreter; the kernel's own signal also reaches a worker stuck in C code.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    requests: queue.Queue[Request] = queue.Queue()
    source = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def read() -> None:
        for line in source:
            requests.put(json.loads(line))
        if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    return requests


def _limit_host_memory(free_bytes: int | None) -> None:
    if sys.platform != "linux" or free_bytes is None:
        return
    import resource

    limit = int(free_bytes * HOST_MEMORY_SHARE)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]  # of a queueing system, say: it cannot be raised
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    main()
