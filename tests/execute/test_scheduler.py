"""Any program may listen at the address of a scheduler."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kbench.errors import ExecutionError

pytest.importorskip("distributed")

import dask

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
    ("address", "fault"),
    {
        "": "--scheduler: the address names no protocol; use tcp://host:8786",
        "nonsense": "nonsense: the address names no protocol; use tcp://host:8786",
        "tcp://": "tcp://: the address names no host; use tcp://host:8786",
        "tcp://:1": "tcp://:1: the address names no host; use tcp://host:8786",
        "ucx://x": "ucx://x: ucx:// is not supported; use tcp:// or tls://",
        "inproc://x": "inproc://x: inproc:// is not supported; use tcp:// or tls://",
        "tls://x:1": "tls://x:1: dask's configuration has no TLS certificates; docs/scaling.md says how to add them",
        "gopher://x": "gopher://x: gopher:// is not supported; use tcp:// or tls://",
    }.items(),
)
def test_an_address_that_dask_cannot_use_is_one_line_and_nothing_is_asked(address: str, fault: str) -> None:
    with pytest.raises(ExecutionError) as error:
        dask_scheduler.connect(address)
    assert str(error.value) == fault


def test_what_dasks_configuration_forbids(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.comm.require-encryption": True}),
        pytest.raises(ExecutionError, match=r"^tcp://h:1: dask's configuration requires encryption; use tls://$"),
    ):
        dask_scheduler.connect("tcp://h:1")
    files = {"ca-file": "ca.pem", "client.cert": "client.pem", "client.key": "key.pem"}
    with (
        dask.config.set({f"distributed.comm.tls.{key}": str(tmp_path / name) for key, name in files.items()}),
        pytest.raises(
            ExecutionError, match=r"^tls://h:1: the TLS certificates .* cannot be read \(.*\); check their paths"
        ),
    ):
        dask_scheduler.connect("tls://h:1")
