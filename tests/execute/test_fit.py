"""A worker that does not fit the plan: what the user reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from making import machine_info
from stand_in import task

from kbench.config.plan import requirements
from kbench.errors import WorkerLost
from kbench.execute.supervisor import check_fit
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo


def catalog(source_hash: str = "9c2e", device: str = "cuda", definition: str = "d0") -> Catalog:
    providers = {"mine": ProviderInfo(source_hash=source_hash)}
    return Catalog(
        DeviceInfo(device, "a device"),
        (),
        {"softmax": OperatorInfo((), {}, (), providers=providers, source_hash=definition)},
        (),
        machine_info(),
    )


PLANNED = replace(task("mine"), requirements=requirements(catalog(), "softmax", ["mine"]))


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (catalog("3fa1"), "the code of provider mine differs from that of the plan: 3fa1 instead of 9c2e; "),
        (catalog(device="cpu"), "the type of device differs from that of the plan: cpu instead of cuda; "),
        (catalog(definition="e1"), "the definition of the operator differs from that of the plan: e1 instead of d0; "),
    ],
)
def test_what_differs_is_told_with_what_to_do(other: Catalog, sentence: str) -> None:
    check_fit(catalog(), PLANNED, None)
    with pytest.raises(WorkerLost, match=f"{sentence}undo that and continue with --resume, or start a new run"):
        check_fit(other, PLANNED, None)
