"""A worker process.

The parent sends requests to its stdin; answers go to its stdout. Messages and their order are those of `kbench.protocol`.
What a provider prints goes to stderr. The process ends when its stdin closes: a killed parent leaves no worker behind.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from importlib import import_module


def main() -> None:
    """Be a worker, to the end of this process."""
    answers = _claim_stdout()
    requests = _obey_parent()
    faulthandler.enable()
    threading.Thread(target=_make_context, daemon=True).start()
    gc.disable()  # the modules are no garbage: to look for some among them took a tenth of the start
    import torch

    hashing = threading.Thread(target=_hash_compiler, daemon=True)
    # otherwise Triton has to wait until its interpreter is switched on
    if torch.accelerator.is_available():
        with suppress(ImportError):
            import_module("triton.runtime.cache")
        hashing.start()
    from kbench.measure.serving import Server

    gc.freeze()
    gc.enable()
    Server(requests, answers, hashing).serve()


def _claim_stdout() -> int:
    """Keep stdout for the parent, and send what else is printed to stderr. Returns the pipe to the parent."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return pipe


def _obey_parent() -> queue.Queue[bytes]:
    """Read requests in a thread. It ends the process, and its group, when the parent is gone."""
    requests: queue.Queue[bytes] = queue.Queue()
    source = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)

    def read() -> None:
        for line in source:
            requests.put(line)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=read, daemon=True).start()
    return requests


def _make_context() -> None:
    """Initialise NVIDIA's driver and make the context of the first device, half a second of work, beside the import of torch.
    What fails here fails again in torch, which reports it."""
    with suppress(OSError, AttributeError):
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuInit(0) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0)


def _hash_compiler() -> None:
    """Let Triton hash its library, 0.4 s of work, which it does only once, before a first launch. It needs no lock of Python,
    so the imports go on beside it. What fails here fails again in that launch."""
    with suppress(KeyError, AttributeError, OSError):
        sys.modules["triton.runtime.cache"].triton_key()


if __name__ == "__main__":
    main()
