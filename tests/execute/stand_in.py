"""Stand-in workers: a few lines of Python that speak the protocol, or something else, so that no test has to import torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kbench.config.load import Curve
from kbench.execute.plan import Task
from kbench.results.row import Case

ROWS = """
def row(name, **fields):
    measured = {"status": "ok", "ms": 1.0, "round_ms": [1.0], "flags": [], "reason": "", "params": "", "role": "provider"}
    return {"case": request["case"], "session": request["session"], "provider": name} | measured | fields

def rows(*extra):
    return [row(curve["provider"]) for curve in request["curves"]] + list(extra)
"""

SOURCE = """
import ctypes, json, os, signal, sys, time

out, source = sys.stdout.fileno(), sys.stdin

def say(kind, **fields):
    raw(request["secret"] + " " + json.dumps({"type": kind} | fields) + "\\n")

def raw(text):
    left = text if isinstance(text, bytes) else text.encode()
    while left:
        left = left[os.write(out, left):]

def begin(index=0, step="build", limit_s=20):
    say("begin", index=index, name=request["curves"][index]["provider"], step=step, limit_s=limit_s)

def loading(plugin, provider=""):
    if not any(one["plugin"] == plugin and one["provider"] == provider for one in request["without"]):
        say("loading", plugin=plugin, operator="softmax" if provider else "", provider=provider)
        return True

def names():
    return [curve["provider"] for curve in request["curves"]]

ROWS

CATALOG = {
    "device": {"type": "cpu", "name": "stand-in", "index": None, "uuid": ""},
    "devices": [], "operators": {}, "plugin_errors": [], "environment": {},
}

def answer():
MEASURE

def start():
START

for line in source:
    request = json.loads(line)
    if request["request"] == "catalog":
        start()
        say("catalog", catalog=CATALOG | {"plugin_errors": request["without"]})
    else:
        answer()
    say("done")
"""


def command(measure: str = "pass", start: str = "pass") -> list[str]:
    """The command line of a stand-in: what it does when it is asked to measure, and before it gives its catalog."""
    source = SOURCE.replace("ROWS", ROWS)
    for name, body in (("MEASURE", measure), ("START", start)):
        source = source.replace(name, "\n".join(f"    {line}" for line in body.splitlines()))
    return [sys.executable, "-S", "-c", source]


HONEST = """
for number in range(len(request["curves"])):
    begin(number)
    say("end", index=number)
say("rows", rows=rows())
"""
"""A worker that measures every curve."""


SETTINGS: Mapping[str, Any] = {"timer": "do_bench", "cache": "warm"}


def task(*providers: str) -> Task:
    curves = tuple(Curve(provider, {}) for provider in providers)
    return Task(Case("softmax", {"M": 8, "N": 64}, "float32"), curves, None, SETTINGS, 0, {"the type of device": "cpu"})


class Silent:
    """Hears what measuring reports, and keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def begin(self, task: Task, place: str) -> None:
        return None

    def event(self, event: Any, place: str) -> None:
        return None

    def note(self, line: str) -> None:
        self.notes.append(line)
