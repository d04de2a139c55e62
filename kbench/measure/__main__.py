"""The worker: `python -m kbench.measure`, started by the parent, which it obeys over stdin and stdout.

One JSON object a line in each direction. Requests are `catalog` (first), `measure` and `check`; every request is answered
by any number of messages and then `done`. Whatever a provider prints goes to stderr. The process ends when its stdin
does, so that a killed parent leaves no worker behind.
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
from collections.abc import Mapping
from typing import IO, Any

PR_SET_PDEATHSIG = 1

HOST_MEMORY_SHARE = 0.8
"""How much of the memory that is free at the start a host-only worker may take: a provider that allocates without end
shall fail, not the machine."""


def main() -> None:
    answers = _claim_stdout()
    requests = _obey_parent()
    faulthandler.enable()

    def emit(event: Mapping[str, Any]) -> None:
        answers.write(json.dumps(event, default=str) + "\n")
        answers.flush()

    serve(requests, emit)


def serve(requests: queue.Queue[dict[str, Any]], emit: Any) -> None:
    """Answer requests until the parent goes away."""
    from kbench import registry
    from kbench.measure.case import CaseRun, DeviceLost, Settings
    from kbench.measure.catalog import catalog
    from kbench.measure.ceiling import ceiling_gbps
    from kbench.measure.device import Device
    from kbench.measure.edges import check_edges
    from kbench.measure.telemetry import telemetry
    from kbench.results import Case

    device = Device()
    if not device.accelerated:
        _limit_host_memory(device.free_bytes())
    reader = telemetry(device)
    ceiling: list[float | None] = []  # measured when a session's first case asks for it
    while True:
        request = requests.get()
        if request["request"] == "catalog":
            failures = registry.load_plugins(request["plugins"])
            emit({"type": "catalog", "catalog": catalog(device, reader, failures)})
        else:
            case = Case.from_json(request["case"])
            curves = [(curve["provider"], curve["params"]) for curve in request["curves"]]
            common: dict[str, Any] = {
                "settings": Settings(**request["settings"]),
                "device": device,
                "telemetry": reader,
                "emit": emit,
            }
            operator = registry.operator(case.operator)
            try:
                if request["request"] == "check":
                    check_edges(operator, case, curves, skip=request["skip"], **common)
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
                    emit({"type": "rows", "rows": [row.to_json() for row in run.run()]})
            except DeviceLost as lost:
                assert lost.entry.status is not None
                emit({"type": "lost", "status": lost.entry.status.value, "reason": lost.entry.reason})
                return
            device.release()
        emit({"type": "done"})


def _claim_stdout() -> IO[str]:
    """Keep stdout for the parent and send everything else that is printed, by Python or by C code, to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def _obey_parent() -> queue.Queue[dict[str, Any]]:
    """Read requests in a thread that ends the process, and all it started, when the parent is gone."""
    if sys.platform == "linux":
        # The thread below needs the interpreter; the kernel's own signal also reaches a worker stuck in C code.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
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
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
