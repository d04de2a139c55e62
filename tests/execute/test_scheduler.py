"""Any program may listen at the address of a scheduler."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from kbench.errors import ExecutionError

pytest.importorskip("distributed")

from kbench.execute.executors import dask_scheduler

ZEROS = bytes(1 << 20)
SAYS = {
    "nothing": [],
    "100 MB of zeros": [ZEROS] * 100,
    "a frame without end": [b"\xff" * 100],
    "HTTP": [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
}


@contextmanager
def listening(says: list[bytes]) -> Iterator[str]:
    """The address of a server that sends this to every client."""
    server = socket.create_server(("127.0.0.1", 0))
    kept = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                kept.append(client)
                with suppress(OSError):
                    for part in says:
                        client.sendall(part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
    finally:
        for one in (server, *kept):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        thread.join(timeout=10)


@pytest.mark.slow
@pytest.mark.parametrize("what", SAYS)
def test_something_else_is_one_line(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_scheduler, "CONNECT_LIMIT_S", 0.5)
    with listening(SAYS[what]) as address, pytest.raises(ExecutionError, match="no dask scheduler answers") as error:
        dask_scheduler.connect(address)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize(
    "address", ["", "nonsense", "tcp://", "tcp://:1", "ucx://x", "inproc://x", "tls://x:1", "gopher://x"]
)
def test_addresses_that_name_no_scheduler_are_one_line(address: str) -> None:
    with pytest.raises(ExecutionError, match="no dask scheduler answers") as error:
        dask_scheduler.connect(address)
    assert "\n" not in str(error.value)
