"""After a failure such as an illegal memory access, every call of the driver fails. The row keeps the words of the first."""

from __future__ import annotations

import pytest
from in_process import case_run
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.steps import DeviceLost
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
