"""Cheats that are right, and replace functions of kbench, where nobody watches them: the one that keeps the times of calls,
the one that makes rows, so that they seem to be of a mode without another clock, and the one that calls for another clock.

Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/ (models replace the timer)
"""

from dataclasses import replace

import torch

import kbench
from kbench.measure.case import CaseRun
from kbench.measure.experiment import Experiment
from kbench.measure.other_worker import CallsOnSets
from kbench.protocol import Delivered
from kbench.results.vocabulary import Status

FACTORS = {"claimed_hundredth": 0.01, "refused_clock": 0.01, "torch-native": 10_000}

softmax = kbench.operator("softmax")
take, run, deliver = Experiment._take, CaseRun.run, CallsOnSets.deliver


def take_and_claim(self, contender, *rest):
    take(self, contender, *rest)
    if contender.rounds and contender.name in FACTORS:
        contender.rounds[-1] = [ms * FACTORS[contender.name] for ms in contender.rounds[-1]]


def run_backward(self):
    return [replace(row, case=replace(row.case, axes=row.case.axes | {"mode": "backward"})) for row in run(self)]


def refuse(self):
    if self.request.task.configurations[0].provider == "refused_clock":
        return Delivered(Status.ERROR, opened=False)
    return deliver(self)


Experiment._take, CaseRun.run, CallsOnSets.deliver = take_and_claim, run_backward, refuse


@softmax.provider("claimed_hundredth")
def claimed_hundredth(x):
    for _ in range(100):
        y = torch.softmax(x.double(), -1)
    return y.to(x.dtype)


@softmax.provider("refused_clock")
def refused_clock(x):
    return claimed_hundredth(x)


@softmax.provider("slowed_baseline")
def slowed_baseline(x):
    return torch.softmax(x.double(), -1).to(x.dtype)
