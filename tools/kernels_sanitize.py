"""Runs the CUDA and Triton kernels on one shape for each of their regimes, under compute-sanitizer:

    compute-sanitizer --tool memcheck  --error-exitcode 1 python tools/kernels_sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tools/kernels_sanitize.py

It needs a CUDA device, and some minutes for each tool. Run it once without compute-sanitizer before: CUDA extensions are
built much faster then, and kept. Less is enough after a change of the norms:

    ... tools/kernels_sanitize.py bfloat16 --only rmsnorm,layernorm --lengths 64,781,4096,32768 --rows 1,5 --limit-s 30

Several processes can run at a time, such as one for each operator and dtype. The expected outputs are computed on the host, so
give each process one thread: OMP_NUM_THREADS=1 MKL_NUM_THREADS=1. With all threads in each, a long row takes minutes.

Each provider runs in the modes for which it has a kernel of its own, or in those of --modes. The exit code is 1 if an output is
wrong, and 2 if there is nothing to run. Shapes that --limit-s leaves out are counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import kbench
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import compared
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device
from kbench.results.case import BACKWARD, FORWARD, FULL, Case

LENGTHS = (64, 160, 781, 1000, 4096, 12288, 32768, 50257, 131072, 151936, 262144, 1_000_000)
"""Of a row, in elements: a part of a warp, a warp, a block, a cluster of blocks, more than a cluster holds; odd ones."""

ROWS = (1, 5, 16, 67)
"""Few rows, which several blocks share in different ways, and many, of which a warp has several."""

OPERATORS = ("softmax", "gelu", "rmsnorm", "layernorm", "add_rmsnorm", "cross_entropy")
"""Operators on matrices of M rows. The name of the other axis is the operator's own."""

PROVIDERS = ("cuda", "cuda-in-place")
"""Those of CUDA. For `--providers triton,triton-in-place`, Triton compiles a kernel for every shape."""

MODES = (FORWARD, BACKWARD, FULL)
"""All modes. A provider runs in those of them for which it has a kernel of its own."""


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def names(text: str) -> list[str]:
    return text.split(",")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dtypes", nargs="*", default=["float32", "float16", "bfloat16"])
    parser.add_argument("--only", type=names, default=OPERATORS, help="these operators")
    parser.add_argument("--providers", type=names, default=PROVIDERS, help=f"default: {','.join(PROVIDERS)}")
    parser.add_argument(
        "--weights",
        type=names,
        default=["same", "float32"],
        help="dtypes of the norms' weights. float32 is for rows in 16 bits. Default: same,float32",
    )
    parser.add_argument("--modes", type=names, default=MODES, help=f"default: {','.join(MODES)}")
    parser.add_argument("--lengths", type=numbers, default=LENGTHS)
    parser.add_argument("--rows", type=numbers, help=f"default: {ROWS}, or the first three for more than 4096 elements")
    parser.add_argument("--limit-s", type=float, default=float("inf"))
    asked = parser.parse_args()
    known = {name for operator in map(kbench.operator, OPERATORS) for name in operator.providers}
    if unknown := set(asked.providers) - known:
        parser.error(f"no operator has the provider {min(unknown)}; there are {', '.join(sorted(known))}")
    if unknown := set(asked.only) - set(OPERATORS):
        parser.error(f"--only takes {', '.join(OPERATORS)}, not {min(unknown)}")
    if unknown := set(asked.modes) - set(MODES):
        parser.error(f"--modes takes {', '.join(MODES)}, not {min(unknown)}")
    if next(cases(asked), None) is None:
        parser.error("no provider takes any of these cases; ask for other operators, providers, dtypes or modes")
    return asked


def own_modes(provider: kbench.Provider) -> Iterator[str]:
    """The modes for which a provider has a kernel of its own."""
    yield FORWARD
    if provider.backward:
        yield BACKWARD
    if provider.full:
        yield FULL


def cases(asked: argparse.Namespace) -> Iterator[tuple[str, Case]]:
    """Names of providers, and cases that they take. Short rows come first."""
    for columns, operator, name in product(asked.lengths, map(kbench.operator, asked.only), asked.providers):
        if name not in operator.providers:
            continue
        provider = operator.providers[name]
        other = next(axis for axis in operator.axes if axis != "M")
        rows = asked.rows or (ROWS if columns <= 4096 else ROWS[:3])
        modes = [mode for mode in own_modes(provider) if mode in asked.modes]
        for mode, M, dtype, weights in product(modes, rows, asked.dtypes, asked.weights):
            choices: dict[str, Any] = {} if mode == FORWARD else {"mode": mode}
            if weights != "same":
                if dtype == "float32" or "weight_dtype" not in operator.choices:
                    continue
                choices["weight_dtype"] = weights
            case = operator.case(dtype, M=M, **{other: columns}, **choices)
            if provider.declines(case) is None:
                yield name, case


def fault(case: Case, name: str, device: Device) -> str | None:
    """What is wrong with a provider on a case. Judged on the host: some of torch's own kernels are not clean."""
    operator = kbench.operator(case.operator)
    definition = Definition(operator, case)
    inputs = Inputs(definition, device, seed=0).draw("sanitize")
    expected = Expected(definition, [x.cpu() for x in inputs])
    call = stage_of(definition, operator.providers[name], {})(inputs, expected.shapes)
    outputs = call.outputs(call.run())
    return compared(expected, [y.cpu() for y in outputs]).wrong


def main() -> None:
    asked = arguments()
    device = Device()
    chosen, wrong, end = list(cases(asked)), 0, time.monotonic() + asked.limit_s
    right: Counter[str] = Counter()
    for number, (name, case) in enumerate(chosen):
        if time.monotonic() > end:
            print(f"the time is over: {len(chosen) - number} of {len(chosen)} shapes are left", flush=True)
            break
        reason = fault(case, name, device)
        print(f"{name}, {case.label}: {reason or 'right'}", flush=True)
        wrong += bool(reason)
        right[f"{case.operator} {name} {case.mode}"] += not reason
    device.synchronize()
    for what, count in right.items():
        print(f"{what}: {count} right")
    print(f"{right.total()} right, {wrong} wrong", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
