"""Connects to a dask scheduler, or to whatever listens where one is expected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import distributed

from kbench.errors import ExecutionError
from kbench.execute.executors.time_limits import within

CONNECT_LIMIT_S = 10.0
"""How long to try to reach the scheduler."""

UNFIT = ("inproc", "ucx")
"""Protocols that dask lists: one is for a single process, the other has moved to a package of its own, as ucxx."""


def connect(address: str) -> Any:
    """A client of the scheduler. Raises ExecutionError."""
    _silence()
    try:
        _check(address)
        within(2 * CONNECT_LIMIT_S, partial(asyncio.run, _probe(address)))
        client = partial(distributed.Client, address, timeout=CONNECT_LIMIT_S, set_as_default=False, name="kbench")
        return within(2 * CONNECT_LIMIT_S, client)
    except (OSError, TimeoutError, ValueError) as error:
        raise ExecutionError(f"{address}: no dask scheduler answers ({_first_line(error)})") from None


async def _probe(address: str) -> None:
    """Ask who is there, without a client: that would try again and again whatever answers. Raises OSError."""
    security = distributed.Security().get_connection_args("client")
    try:
        async with distributed.rpc(address, timeout=CONNECT_LIMIT_S, connection_args=security) as there:
            found = await asyncio.wait_for(there.identity(), CONNECT_LIMIT_S + 2)
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"no answer within {CONNECT_LIMIT_S + 2:g} s") from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  whatever listens there may say anything
        raise OSError(f"what listens there does not speak as one: {type(error).__name__}") from None
    if not isinstance(found, Mapping) or found.get("type") != "Scheduler":
        raise OSError("what listens there is none")


def _check(address: str) -> None:
    """Whether dask can make anything of an address: a client that cannot takes long to say so. Raises ValueError or OSError."""
    scheme, host = distributed.comm.parse_address(address, strict=True)
    if scheme not in distributed.comm.registry.backends or scheme in UNFIT:
        raise ValueError(f"{scheme}:// is no protocol for this; use tcp:// or tls://")
    if not host or host.startswith(":"):
        raise ValueError(f"{address} names no host; use tcp://host:8786")
    security = distributed.Security()
    if scheme == "tls" and not security.get_connection_args("client")["ssl_context"]:
        raise ValueError("dask's configuration has no TLS certificates: see docs/scaling.md")
    if scheme == "tcp" and security.require_encryption:
        raise ValueError("dask's configuration requires encryption: use tls://")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _silence() -> None:
    """dask logs what kbench says in a line of its own."""
    for name in ("distributed", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)
