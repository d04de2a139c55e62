"""The worker process. The parent starts it and sends requests to its stdin; answers go to its stdout.

Messages and their order are those of `kbench.protocol`. Output that a provider prints goes to stderr. The process ends
when its stdin closes, so that a killed parent leaves no worker behind.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import queue
import signal
import sys
import threading
from contextlib import suppress

from kbench.protocol import (
    CatalogRequest,
    CheckRequest,
    DeviceFailed,
    MeasureRequest,
    Message,
    PluginCall,
    Request,
    RequestDone,
    Rows,
    TrialFailed,
    TrialRequest,
    decode_request,
    encode,
)

PR_SET_PDEATHSIG = 1

HOST_MEMORY_SHARE = 0.8
"""Share of the free memory that a worker without an accelerator may take. A provider that allocates without end then
fails before the machine runs out of memory."""


def main() -> None:
    answers = _claim_stdout()
    requests = _obey_parent()
    faulthandler.enable()
    serve(requests, answers)


class Answers:
    """The pipe to the parent. Only this process writes to it: a child that a provider forks, and that returns to kbench's
    code, ends at its first message."""

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
        """Close the pipe in a forked child. Otherwise the parent would not see the end of the worker."""
        with suppress(OSError):  # a provider may have closed it
            os.close(self._file)


def serve(requests: queue.Queue[bytes], answers: Answers) -> None:
    """Answer requests until the parent goes away."""
    from kbench import registry
    from kbench.measure.case import CaseRun
    from kbench.measure.catalog import make_catalog
    from kbench.measure.correctness.operator_trial import attempt
    from kbench.measure.edge_cases import check_edges
    from kbench.measure.machine.device import Device
    from kbench.measure.machine.sources import find_telemetry
    from kbench.measure.steps import DeviceLost
    from kbench.measure.timing.ceiling import ceiling_gbps, ceiling_tflops
    from kbench.measure.timing.session import SessionMeasurements
    from kbench.plugins import load_plugins

    device = Device()
    device.set_up()
    if not device.accelerated:
        _limit_host_memory(device.free_bytes())
    reader = find_telemetry(device)
    measured = SessionMeasurements(reader)
    ceiling: list[float | None] = []  # measured once, for a session's first case
    compute: dict[str, float | None] = {}  # by dtype, measured once, for the first case of an operator with flops

    def announce(plugin: str, operator: str = "", provider: str = "") -> None:
        """Tell the parent which plug-in, or which of its providers, runs now: it may hang or end the process."""
        answers(PluginCall(plugin, operator, provider))

    def answer(request: Request) -> None:
        if isinstance(request, CatalogRequest):
            failures = load_plugins(request.plugins, request.without, announce)
            answers(make_catalog(device, reader, failures, announce))
            return
        operator, settings = registry.operator(request.case.operator), request.settings
        device.use_threads(settings.threads)
        if isinstance(request, TrialRequest):
            if fault := attempt(operator, request.case, device, settings.seed):
                answers(TrialFailed(fault.where, fault.what))
            return
        if isinstance(request, CheckRequest):
            check_edges(
                operator,
                request.case,
                request.configurations,
                skip=request.skip,
                seed=settings.seed,
                build_timeout_s=settings.build_timeout_s,
                device=device,
                emit=answers,
            )
        elif isinstance(request, MeasureRequest):
            ceiling[:] = ceiling or [ceiling_gbps(device)]
            dtype = request.case.dtype if operator.flops else None
            if dtype and dtype not in compute:
                compute[dtype] = ceiling_tflops(device, dtype)
            run = CaseRun(
                operator,
                request.case,
                request.configurations,
                baseline=request.baseline,
                session=request.session,
                ceiling_gbps=ceiling[0],
                ceiling_tflops=compute[dtype] if dtype else None,
                measured=measured,
                settings=settings,
                device=device,
                telemetry=reader,
                emit=answers,
            )
            answers(Rows(tuple(run.run())))

    while True:
        answers.secret, request = decode_request(requests.get())
        try:
            answer(request)
        except DeviceLost as lost:
            assert lost.contender.status is not None
            answers(DeviceFailed(lost.contender.status, lost.contender.reason))
            return
        if not isinstance(request, CatalogRequest):
            device.release()
        answers(RequestDone())


def _claim_stdout() -> Answers:
    """Keep stdout for the parent and send everything else that is printed, by Python or by C code, to stderr."""
    answers = Answers(os.dup(1))
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def _obey_parent() -> queue.Queue[bytes]:
    """Read requests in a thread. It ends the process, and all that it has started, when the parent is gone."""
    if sys.platform == "linux":
        # The thread below needs the interpreter. The kernel's signal also reaches a worker that is stuck in C code.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    requests: queue.Queue[bytes] = queue.Queue()
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def read() -> None:
        for line in source:
            requests.put(line)
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
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]  # a queueing system may have set it; it cannot be raised
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    main()
