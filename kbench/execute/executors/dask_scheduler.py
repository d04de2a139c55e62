"""Connects to a dask scheduler, and explains its errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any

import distributed

from kbench.errors import ExecutionError
from kbench.execute.supervision.time_limits import call_within

CONNECT_LIMIT_S = 10.0
"""How long to try to connect to the scheduler."""

UNFIT = ("inproc", "ucx")
"""Protocols of dask that kbench refuses: `inproc` is for a single process, and `ucx` has moved to the package ucxx."""


def connect(address: str) -> Any:
    """A client of the scheduler. Raises ExecutionError when none answers at the address, or dask cannot use the address."""
    _silence()
    _check(address)
    try:
        call_within(2 * CONNECT_LIMIT_S, partial(asyncio.run, _probe(address)))
        client = partial(distributed.Client, address, timeout=CONNECT_LIMIT_S, set_as_default=False, name="kbench")
        return call_within(2 * CONNECT_LIMIT_S, client)
    except (OSError, TimeoutError, ValueError) as error:
        advice = "" if isinstance(error, ValueError) else "; check the address, or start one with `dask scheduler`"
        raise ExecutionError(f"{address}: no dask scheduler answers ({_first_line(error)}){advice}") from None


@contextmanager
def scheduler_errors(client: Any, address: str) -> Iterator[None]:
    """Raise ExecutionError for the many exceptions that dask raises when its scheduler is gone.

    kbench does not let dask reconnect: a new scheduler at the same address knows nothing of the run.
    """
    try:
        if client.status != "running":
            raise CancelledError
        yield
    except (OSError, TimeoutError, CancelledError) as error:
        gone = client.status != "running" or not isinstance(error, TimeoutError)
        fault = "is gone" if gone else "does not answer"
        raise ExecutionError(
            f"{address}: the scheduler {fault}; start it again or choose another, and continue with --resume"
        ) from None


async def _probe(address: str) -> None:
    """Check that a scheduler answers, without a client: a client would retry whatever answers. Raises OSError."""
    security = distributed.Security().get_connection_args("client")
    try:
        async with distributed.rpc(address, timeout=CONNECT_LIMIT_S, connection_args=security) as there:
            found = await asyncio.wait_for(there.identity(), CONNECT_LIMIT_S + 2)
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"no answer within {CONNECT_LIMIT_S + 2:g} s") from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  another program may answer anything
        raise OSError(f"the program there does not speak dask's protocol: {type(error).__name__}") from None
    if not isinstance(found, Mapping) or found.get("type") != "Scheduler":
        raise OSError("the program there is not a dask scheduler")


def _check(address: str) -> None:
    """Check that dask can use the address: its client takes long to refuse one. Raises ExecutionError."""
    if fault := _fault_of(address):
        raise ExecutionError(f"{address or '--scheduler'}: {fault}")


def _fault_of(address: str) -> str:
    """Why dask cannot use the address, and what to do; empty if it can."""
    scheme, colon, host = address.partition("://")
    if not colon:
        return "the address names no protocol; use tcp://host:8786"
    if scheme not in distributed.comm.registry.backends or scheme in UNFIT:
        return f"{scheme}:// is not supported; use tcp:// or tls://"
    if not host or host.startswith(":"):
        return "the address names no host; use tcp://host:8786"
    security = distributed.Security()
    if scheme == "tcp" and security.require_encryption:
        return "dask's configuration requires encryption; use tls://"
    try:
        encrypted = scheme != "tls" or security.get_connection_args("client")["ssl_context"]
    except OSError as error:
        return f"the TLS certificates named in dask's configuration cannot be read ({_first_line(error)}); check their paths"
    return "" if encrypted else "dask's configuration has no TLS certificates; docs/scaling.md says how to add them"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _silence() -> None:
    """Switch dask's logging off: kbench reports the same events itself."""
    for name in ("distributed", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)
