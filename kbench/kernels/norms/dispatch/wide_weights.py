"""Launches that normalise rows in 16 bits beside weights in float32."""

from __future__ import annotations

from typing import Any

from kbench.kernels.norms.dispatch.launches import Launches, Processors, tile_elements


def for_wide_weights(plan: Launches, pivot: bool, inputs: int, whole: bool, device: Processors) -> Launches:
    """A plan for weights in the dtype of the rows, changed for weights in float32, which take twice the registers. `pivot` and
    `inputs` are as in `forward_plan`; with a pivot, there are two weights. With `whole`, rows are multiples of 16 bytes."""
    numbers, options = plan.steps[0].arguments, plan.steps[0].options
    if not numbers.get("EARLY"):
        return plan
    count = tile_elements(numbers)
    each = count // (32 * options["num_warps"])
    alone = whole and device.chained and numbers["WIDTH"] == 1 and numbers["ROWS"] == 1 and not plan.window
    if alone and each == 32 and (numbers["PACKED"] if pivot else count > 8192):
        # a thread has registers for the weights of 8 elements, and for those of 8 more before it needs them
        ahead = 2 if not pivot and inputs == 1 else int(numbers["FULL"] or count <= 8192)
        return _changed(plan, {"BLOCK": numbers["BLOCK"] // 4, "PIECES": 4, "EARLY": ahead}, {"maxnreg": 64})
    if alone and each == 16 and pivot and numbers["PACKED"]:
        return _changed(plan, {}, {"maxnreg": 56})
    if alone and each == 16 and not pivot and inputs == 1 and count >= 4096:
        # three programs of 512 threads fit on a multiprocessor
        return _changed(plan, {"PACKED": True}, {"maxnreg": 40})
    return _changed(plan, {"EARLY": 0}, {}) if pivot else plan


def _changed(plan: Launches, arguments: dict[str, Any], options: dict[str, int]) -> Launches:
    steps = (step._replace(arguments=step.arguments | arguments, options=step.options | options) for step in plan.steps)
    return plan._replace(steps=tuple(steps))
