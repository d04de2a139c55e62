"""Cheats that are right, and replace, where kbench has imported it, the function that keeps the times of calls.

Source: https://metr.org/blog/2025-06-05-recent-reward-hacking/ (models replace the timer), where nobody watches it
"""

import torch

import kbench
from kbench.measure.experiment import Experiment

FACTORS = {"claimed_hundredth": 0.01, "torch-native": 1000}

softmax = kbench.operator("softmax")
take = Experiment._take


def take_and_claim(self, contender, *rest):
    take(self, contender, *rest)
    if contender.rounds and contender.name in FACTORS:
        contender.rounds[-1] = [ms * FACTORS[contender.name] for ms in contender.rounds[-1]]


Experiment._take = take_and_claim


@softmax.provider("claimed_hundredth")
def claimed_hundredth(x):
    for _ in range(100):
        y = torch.softmax(x.double(), -1)
    return y.to(x.dtype)


@softmax.provider("slowed_baseline")
def slowed_baseline(x):
    return torch.softmax(x.double(), -1).to(x.dtype)
