"""Registers a slow function in the place of the baseline.

Source: no published case; plausible wherever a provider and the baseline share a process
"""

import dataclasses

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("replaced_baseline")
def call(x):
    mine = softmax.providers["replaced_baseline"]
    softmax.providers["torch-native"] = dataclasses.replace(mine, name="torch-native")
    return torch.softmax(x, -1)
