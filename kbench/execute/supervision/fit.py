"""Whether a worker sees what the run was planned for: the same device, operator and providers."""

from __future__ import annotations

from kbench.errors import DeviceGone
from kbench.execute.plan import CODE, Task, traits
from kbench.protocol import Catalog, DeviceInfo


class Misfit(DeviceGone):
    """A worker has another device or other code than the plan was made for.

    what    how it differs, if it runs on the host that made the plan: something has changed there
    remedy  what to do about this before the run is continued
    there   how it differs, if it runs on another host
    """

    def __init__(self, name: str, found: str | None, wanted: str) -> None:
        is_ = found or "not known"
        self.there = f"{name} is {is_} there, but {wanted} in this run"
        if name.startswith(CODE):
            self.what = f"the code of {name.removeprefix(CODE)} has changed since the run began"
            self.remedy = "undo the change"
        else:
            self.what = f"{name} is {is_}, but was {wanted} when the run began"
            self.remedy = f"make {wanted} available again"
        super().__init__(f"{self.what}; {self.remedy} and continue the run, or start a new run")


def check_fit(catalog: Catalog, task: Task, device: DeviceInfo | None) -> None:
    """Raise Misfit for the catalog of a worker that does not fit the plan. `device` is the one that it must use, if the plan
    names one."""
    operator = task.case.operator
    found = traits(
        catalog, operator, catalog.providers(operator)
    )  # all: a task may have a part of the plan's providers
    needs = dict(task.needs)
    if device:
        found["the UUID of the device"], needs["the UUID of the device"] = catalog.device.uuid, device.uuid
    for name, wanted in needs.items():
        if found.get(name) != wanted:
            raise Misfit(name, found.get(name), wanted)
