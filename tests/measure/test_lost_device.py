"""After a failure such as an illegal memory access, every call of the driver fails. The row keeps the words of the first."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from typing import Any

import pytest
import torch
from in_process import case_run
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure import serving
from kbench.measure.steps import DeviceLost
from kbench.protocol import CatalogRequest, DeviceFailed, decode, encode
from kbench.results.vocabulary import Status

FIRST = "CUDA error: an illegal memory access was encountered"


@pytest.fixture
def doubles(no_operators: None) -> Operator:
    return Operator(
        "doubles", axes=("N",), inputs={"x": Declared("N")}, outputs={"y": Declared("N")}, reference=lambda x: x * 2
    )


class Driver:
    """Stands in for the calls of a device that may be lost. `words` are said by each call from then on."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def call(self) -> None:
        if self.words:
            raise RuntimeError(self.words.pop(0) if len(self.words) > 1 else self.words[0])


@pytest.mark.parametrize("noticed_by", ["the provider", "kbench"])
def test_the_row_has_the_words_of_the_first_failure(noticed_by: str, doubles: Operator) -> None:
    driver = Driver()

    @doubles.provider("stores-far-away")
    def stores_far_away(x: Tensor) -> Tensor:
        driver.words = [FIRST, "CUDA error: a later call"]
        if noticed_by == "the provider":
            driver.call()
        return x * 2

    run = case_run(doubles, N=8)
    run.device.synchronize = run.device.release = driver.call  # type: ignore[method-assign]
    with pytest.raises(DeviceLost) as lost:
        run.run()
    assert lost.value.contender.status is Status.ERROR
    assert FIRST in lost.value.contender.reason


def test_a_failure_that_is_noticed_between_steps_reaches_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> None:
        raise torch.AcceleratorError(
            f"{FIRST}\nCUDA kernel errors might be asynchronously reported at some other API call"
        )

    answers = _served(monkeypatch, fails, healthy=False)
    assert isinstance(answers[-1], DeviceFailed) and FIRST in answers[-1].reason


def test_a_failure_while_the_device_works_is_one_of_kbench(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        _served(monkeypatch, fails, healthy=True)


def _served(monkeypatch: pytest.MonkeyPatch, catalog: Callable[..., Any], *, healthy: bool) -> list[Any]:
    """What a worker answers to a request whose work is `catalog`."""
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: None)  # this process goes on
    requests: queue.Queue[bytes] = queue.Queue()
    requests.put(encode(CatalogRequest(()), "secret"))
    monkeypatch.setattr(serving, "make_catalog", catalog)
    monkeypatch.setattr(serving.Device, "healthy", lambda self: healthy)
    monkeypatch.setattr(serving.Device, "set_up", lambda self: None)
    monkeypatch.setattr(serving, "_limit_host_memory", lambda free: None)
    ours, workers = os.pipe()
    try:
        serving.serve(requests, workers)
    finally:
        os.close(workers)
        with os.fdopen(ours, "rb") as file:
            lines = file.readlines()
    return [decode(line, "secret") for line in lines]
