"""No correct provider is ever wrong: one of torch for every operator on random shapes, many tiny, many of equal sizes.

Sizes that are equal by chance must not confuse the check: the rows of one tensor and the columns of another, for example.
"""

from __future__ import annotations

import random

import pytest

from kbench.contract.operator import Operator
from kbench.contract.origin import shipped
from kbench.contract.registry import operator
from kbench.measure.correctness.call import preparer_of
from kbench.measure.correctness.check import MadeCall, judge_call
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device
from kbench.results.case import Case

SHAPES = 24
LONGEST = 40


def random_case(definition: Operator, rng: random.Random) -> Case:
    """Every second size is the same as the one before it, and every fourth is at most 4."""
    axes: dict[str, int] = {}
    if "kv_heads" in definition.axes:  # heads share keys, and the reference takes long
        kv_heads, length = rng.randint(1, 3), rng.randint(1, LONGEST)
        sizes = [rng.randint(1, 3), kv_heads * rng.randint(1, 3), kv_heads, length, rng.choice((length, 8, 40))]
        axes = dict(zip(definition.axes, sizes, strict=True))
    for axis in definition.axes if not axes else ():
        drawn = rng.randint(1, 4 if rng.random() < 0.25 else LONGEST)
        axes[axis] = list(axes.values())[-1] if axes and rng.random() < 0.5 else drawn
    words = {name: rng.choice((words[0], *words)) for name, words in definition.words.items()}  # gradients take longest
    return definition.case(rng.choice(definition.dtypes), **axes, **words)


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_torch_native_is_right_on_random_shapes(name: str) -> None:
    definition, rng, device = operator(name), random.Random(name), Device()
    # torch's grouped product needs rows at multiples of 16 bytes
    provider = definition.providers["torch-loop" if name == "grouped_matmul" else "torch-native"]
    judged = 0
    for seed in range(SHAPES):
        case = random_case(definition, rng)
        if provider.declines(case):
            continue
        here = Definition(definition, case)
        inputs = Inputs(here, device, seed).draw("random")
        expected = Expected(here, [x.clone() for x in inputs])
        call = preparer_of(here, provider, {})(inputs, expected.shapes)
        assert judge_call(expected, MadeCall.of(call, inputs)).wrong is None, case.label
        judged += 1
    assert judged > SHAPES / 2
