"""Stand-in workers: a few lines of Python that speak the protocol, or break it. No test has to import torch for them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from making import machine_info

from kbench.execute.progress import PlainProgress
from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import CatalogRequest, Configuration, Measure, Task
from kbench.results.case import Case
from kbench.results.row import Row

StandIn = Callable[..., None]
"""The fixture `stand_in`: `stand_in(measure, start)` makes every worker one that `command` starts."""

ROWS = """
def row(name, **fields):
    measured = {"status": "ok", "ms": 1.0, "round_ms": [1.0], "flags": [], "reason": "", "params": "", "role": "provider"}
    return {"case": request["case"], "session": request["session"], "provider": name} | measured | fields

def rows(*extra):
    return [row(one["provider"]) for one in request["configurations"]] + list(extra)
"""

SOURCE = """
import ctypes, json, os, signal, sys, time

out, source = sys.stdout.fileno(), sys.stdin

def say(kind, **fields):
    raw(f"{secret} {kind} {json.dumps(fields)}\\n")

def raw(text):
    left = text if isinstance(text, bytes) else text.encode()
    while left:
        left = left[os.write(out, left):]

def begin(index=0, step="build", limit_s=20):
    say("StepBegun", index=index, name=request["configurations"][index]["provider"], step=step, limit_s=limit_s)

def names():
    return [one["provider"] for one in request["configurations"]]

ROWS

CATALOG = {
    "device": {"type": "cpu", "name": "stand-in", "index": None, "uuid": ""},
    "devices": [], "operators": {}, "plugin_errors": [], "machine": MACHINE,
}

def answer():
MEASURE

def start():
START

for line in source:
    secret, kind, data = line.split(" ", 2)
    request = json.loads(data)
    if kind == "CatalogRequest":
        start()
        say("Catalog", **CATALOG)
    else:
        answer()
    say("RequestDone")
"""


def command(measure: str = "pass", start: str = "pass") -> list[str]:
    """The command line of a stand-in. `measure` is its code for a measurement, `start` its code before it sends its catalog."""
    source = SOURCE.replace("ROWS", ROWS).replace("MACHINE", repr(machine_info("stand-in").entries()))
    for name, body in (("MEASURE", measure), ("START", start)):
        source = source.replace(name, "\n".join(f"    {line}" for line in body.splitlines()))
    return [sys.executable, "-S", "-c", source]


HONEST = """
for number in range(len(request["configurations"])):
    begin(number)
    say("StepEnded")
say("Rows", rows=rows())
"""
"""A worker that measures every configuration."""

CULPRIT = """
for number, name in enumerate(names()):
    begin(number)
    if name == "culprit":
        DEED
    say("StepEnded")
say("Rows", rows=rows())
"""
"""A worker that does a DEED at the turn of the provider `culprit`."""


SETTINGS = Measure(timer="do_bench", cache="warm", warmup_ms=1, rep_ms=1, rounds=1, timeout_s=60, build_timeout_s=60)


def task(*providers: str) -> Task:
    configurations = tuple(Configuration(provider, {}) for provider in providers)
    return Task(
        Case("softmax", {"M": 8, "N": 64}, "float32"), configurations, None, SETTINGS, 0, {"the type of device": "cpu"}
    )


def measured(*providers: str) -> dict[str, Row]:
    """The rows of these providers, by name, as the workers send them."""
    with WorkerSupervisor(CatalogRequest(())) as supervisor:
        return {row.provider: row for row in supervisor.measure(task(*providers), PlainProgress(1)).rows}
