"""A process of running_compile_ahead.py: builds a CUDA source, or calls the providers of groups of cases, one group at a time.

    running_compile_worker.py build:FILE.cu STATE CONFIG[:PROFILE]...
    running_compile_worker.py cases:NUMBER  STATE CONFIG[:PROFILE]... --whole N

STATE is a folder that the processes share. A file there says which group is next. Each process writes a file with what it does,
a line of JSON for each step.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kbench.config.load import load_config
from kbench.contract import registry
from kbench.contract.provider import Unsupported
from kbench.kernels import cuda_extension
from kbench.measure.case import CaseRun
from kbench.measure.catalog import make_catalog
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Shapes, stage_of
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.machine.telemetry import Nothing
from kbench.measure.tampering.guard import Guard
from kbench.protocol import Catalog, Configuration, MeasureSettings
from kbench.results.case import Case
from kbench.results.vocabulary import Status

START = time.monotonic()

ATTEMPTS = 4
"""How often a call is tried when memory runs out: other processes use the device, too."""

PR_SET_PDEATHSIG = 1

Note = Callable[..., None]
"""Writes its keyword arguments into the file of this process."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("state", type=Path)
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--whole", type=int, default=0)
    asked = parser.parse_args()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it ends with the process that started it
    kind, _, what = asked.job.partition(":")
    with (asked.state / f"{kind}-{os.getpid()}.jsonl").open("a", buffering=1) as file:

        def note(**values: object) -> None:
            file.write(json.dumps(values) + "\n")

        if kind == "build":
            build(Path(what), note)
        else:
            Caller(note).call_groups(asked.configs, asked.whole, asked.state)


def build(source: Path, note: Note) -> None:
    if missing := cuda_extension.missing_tools():
        note(built=f"{source.name} not ({missing})", s=0)
        return
    start = time.monotonic()
    cuda_extension.build(source.stem, source)
    note(built=source.name, s=time.monotonic() - start)


class Work(NamedTuple):
    """A case of a config, and the configurations to call on it. `whole`: it is measured as a run would, with checks."""

    config: str
    case: Case
    configurations: Sequence[Configuration]
    settings: MeasureSettings
    whole: bool


def groups_of(configs: Sequence[str], whole: int, catalog: Catalog) -> list[tuple[str, list[Work]]]:
    """Names and members of all groups, in the order in which they are called; the same in every process.

    The groups of each config are spread over all of the time, so that a limit cuts off a part of each. Of one config, backward
    passes and large groups come first. Cases that are measured whole lie in the middle.
    """
    groups: dict[tuple[str, ...], list[Work]] = {}
    place: dict[tuple[str, ...], float] = {}
    measured: list[Work] = []
    for text in configs:
        name, _, profile = text.partition(":")
        sweep = load_config(name, profile=profile or None).resolve(catalog)
        measure = sweep.measure
        settings = MeasureSettings(
            timer=measure.timer,
            cache=measure.cache,
            stages=False,
            warmup_ms=0,
            rep_ms=1,
            rounds=1,
            seed=measure.seed,
            timeout_s=60,
            build_timeout_s=60,
            kernels=False,
        )
        mine: dict[tuple[str, ...], list[Work]] = {}
        for case in sweep.cases:
            own = sizes(case)
            key = (text, case.dtype, case.mode, *map(str, own[1:] or own))
            mine.setdefault(key, []).append(Work(text, case, sweep.configurations, settings, whole=False))
        order = sorted(mine, key=lambda key: (key[2] == "forward", -len(mine[key]), key))
        place |= {key: number / len(mine) for number, key in enumerate(order)}
        groups |= mine
        others = [each for each in sweep.configurations if not each.provider.startswith("cuda")]
        smallest = sorted(sweep.cases, key=lambda case: (case.mode == "forward", math.prod(sizes(case))))
        measured += [Work(f"{text} whole", case, others, settings, whole=True) for case in smallest[:whole]]
    found = [(" ".join(key), groups[key]) for key in sorted(groups, key=lambda key: (place[key], key[0]))]
    for work in measured:
        found.insert(len(found) // 2, (f"{work.config} {work.case.label}", [work]))
    return found


def sizes(case: Case) -> list[int]:
    return [value for value in case.axes.values() if isinstance(value, int) and not isinstance(value, bool)]


class Caller:
    """Calls providers on the device of this process."""

    def __init__(self, note: Note) -> None:
        self.note = note
        self.device = Device()
        self.device.set_up()
        self.guard = Guard()

    def call_groups(self, configs: Sequence[str], whole: int, state: Path) -> None:
        groups = groups_of(configs, whole, make_catalog(self.device, Nothing(), []))
        self.note(groups=len(groups))
        while (number := claim(state)) < len(groups):
            name, members = groups[number]
            for work in members:
                (self._measure if work.whole else self._call_each)(work)
                self.device.release()
            self.note(ended=name, at=round(time.monotonic() - START, 1))

    def _measure(self, work: Work) -> None:
        start = time.monotonic()
        rows = self._case_run(work).run()
        self.note(config=work.config, provider="all", s=time.monotonic() - start)
        for row in rows:
            if row.status not in (Status.OK, Status.CHECKED, Status.UNAVAILABLE, Status.UNSUPPORTED):
                self.note(config=work.config, error=f"{row.provider} {row.status.value}: {row.reason}")

    def _case_run(self, work: Work) -> CaseRun:
        return CaseRun(
            registry.operator(work.case.operator),
            work.case,
            work.configurations,
            baseline=None,
            settings=work.settings,
            session=0,
            device=self.device,
            telemetry=Nothing(),
            emit=lambda event: None,
            guard=self.guard,
        )

    def _call_each(self, work: Work) -> None:
        """Call every provider of a case once, as the first call of a measurement is made."""
        run = self._case_run(work)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                shared = SharedInputs(run.definition.input_names, run.drawn.draw("timed"))
                shapes = Expected(run.definition, shared.pristine).shapes
                break
            except Exception as error:  # noqa: BLE001  the report says which
                if attempt == ATTEMPTS or not out_of_memory(error):
                    self.note(config=work.config, error=f"inputs: {type(error).__name__}: {error}")
                    return
            self._wait_for_memory()
        for contender in run.contenders:
            if not contender.name.startswith("cuda"):  # another process builds its extension
                self._call(work.config, run, contender, shared, shapes)
                shared.restore()

    def _call(self, config: str, run: CaseRun, contender: Contender, shared: SharedInputs, shapes: Shapes) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            start, again, failure = time.monotonic(), False, ""
            try:
                if not self._called(run, contender, shared, shapes):
                    return
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001  a provider may fail in any way; the report says how
                again = out_of_memory(error) and attempt < ATTEMPTS
                failure = "" if isinstance(error, Unsupported) else f"{type(error).__name__}: {error}"
            if failure:
                self.device.release()
                if not self.device.healthy():
                    self.note(config=config, provider=contender.name, s=0, error=f"device lost: {failure}")
                    os._exit(3)  # the interpreter would touch the device again
            if not again:
                spent = round(time.monotonic() - start, 3)
                self.note(config=config, provider=contender.name, s=spent, error=failure.replace("\n", " "))
                return
            self._wait_for_memory()

    def _called(self, run: CaseRun, contender: Contender, shared: SharedInputs, shapes: Shapes) -> bool:
        """Whether the provider runs on this device and in this case. Raises whatever it raises."""
        provider = contender.admitted(run.case, self.device.type)
        if provider is None:
            return False
        call = stage_of(run.definition, provider, contender.params)(shared.tensors, shapes)
        call.outputs(call.run())
        self.device.synchronize()
        return True

    def _wait_for_memory(self) -> None:
        self.device.release()
        time.sleep(0.5)


def claim(state: Path) -> int:
    """The number of the next group. Each is given away once, also if the process that has it dies."""
    with (state / "next").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0)
        file.truncate(0)
        file.write(str(number + 1))
    return number


if __name__ == "__main__":
    main()
