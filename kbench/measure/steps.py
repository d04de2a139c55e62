"""The steps of a contender: the parent learns of each, and whatever a provider raises becomes the status of its row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kbench.contract.provider import Unsupported
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Misdelivery, WrongArguments
from kbench.measure.correctness.definition import OperatorFault
from kbench.measure.machine.device import Device, drop_locals, out_of_memory
from kbench.measure.tampering.guard import Guard
from kbench.protocol import NO_INDEX, STEPS, Message, StepBegun, StepEnded
from kbench.results.vocabulary import Status
from kbench.text.exception_text import describe_exception, written_at


class DeviceLost(Exception):
    """The device no longer answers, so this process cannot go on. Carries the contender that caused it."""

    def __init__(self, contender: Contender) -> None:
        super().__init__(contender.reason)
        self.contender = contender


@dataclass
class Steps:
    """Runs steps on a device and announces them with `emit`. Without a guard nobody looks for what a step has changed: the
    lines of a script may change what they like. `edge` names the inputs of a check."""

    device: Device
    emit: Callable[[Message], None]
    guard: Guard | None
    edge: str = ""

    @contextmanager
    def announced(self, name: str, step: str, limit_s: float) -> Iterator[None]:
        """Announce a step of no contender to the parent. Whatever it raises ends the request, in this step."""
        self.emit(StepBegun(NO_INDEX, name, step, limit_s, self.edge))
        yield
        self.emit(StepEnded())

    @contextmanager
    def step(self, contender: Contender, name: str, limit_s: float) -> Iterator[None]:
        """Announce the step to the parent, which enforces the limit, and end the contender if its code raises or tampers.

        Raises DeviceLost when the device no longer answers afterwards: then every call of the driver reports the first failure
        again, also those that kbench makes to clean up. The reason keeps the words of the first.
        """
        self.emit(StepBegun(contender.index, contender.configuration_name, name, limit_s, self.edge))
        if self.guard:
            plugin = contender.provider.plugin if contender.provider else None
            contender.changes = contender.changes or self.guard.of_plugin(plugin)
            self.guard.begin(contender.changes, f"while {STEPS[name]}", timed=name == "time")
        failed = True
        try:
            yield
            failed = False
        except (OperatorFault, WrongArguments) as fault:
            contender.end(Status.ERROR, str(fault))
        except Misdelivery as fault:
            contender.end(Status.WRONG, str(fault))
        except Unsupported as refusal:
            contender.end(Status.UNSUPPORTED, str(refusal).strip() or "declined without a reason")
        except BaseException as error:
            if self.guard is None and isinstance(error, KeyboardInterrupt):
                raise  # a script runs in the terminal
            status = Status.OOM if out_of_memory(error) else Status.ERROR
            context = "" if name == "build" else f" (while {STEPS[name]})"
            # without a line of the provider, as for a wrong signature, the place is that of its function
            place = written_at(contender.provider.function) if contender.provider else ""
            contender.end(status, describe_exception(error, place) + context)
            drop_locals(error)
        if failed:
            if not self.device.healthy():
                raise DeviceLost(contender)
            self.device.release()
        if self.guard:
            self.guard.end()
            contender.blame_for_tampering()
        self.emit(StepEnded())
