"""Whether a worker sees what the run was planned for: the same device, operator and providers."""

from __future__ import annotations

from kbench.errors import DeviceGone
from kbench.execute.plan import Task, traits
from kbench.protocol import Catalog, DeviceInfo


def check_fit(catalog: Catalog, task: Task, device: DeviceInfo | None) -> None:
    """Raise DeviceGone for the catalog of a worker that does not fit the plan. `device` is the one that it must use, if the
    plan names one."""
    found = traits(catalog, task.case.operator, {one.provider for one in task.configurations})
    needs = dict(task.needs)
    if device:
        found["its UUID"], needs["its UUID"] = catalog.device.uuid, device.uuid
    for name, wanted in needs.items():
        if found.get(name) != wanted:
            raise DeviceGone(f"{name} is {found.get(name) or 'not known'}, but was {wanted} when the run began")
