"""Runs the CUDA and Triton kernels on one shape for each of their regimes, under compute-sanitizer:

    compute-sanitizer --tool memcheck  --error-exitcode 1 python tools/kernels_sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tools/kernels_sanitize.py bfloat16 --only rmsnorm layernorm

It needs a CUDA device, and some minutes for each tool. Run it once without compute-sanitizer before: CUDA extensions are
built much faster then, and kept. The expected outputs are computed on the host. If several processes run at a time, give each
of them one thread (OMP_NUM_THREADS=1).

Each provider runs in the modes for which it has a kernel of its own. The exit code is 1 if an output is wrong, and 2 if there
is nothing to run.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product

import kbench
from kbench.measure.correctness.call import Preparer
from kbench.measure.correctness.check import compared
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device
from kbench.results.case import BACKWARD, FORWARD, FULL, Case

LENGTHS = (64, 160, 781, 1000, 4096, 12288, 32768, 50257, 131072, 151936, 262144, 1_000_000)
"""Of a row, in elements: a part of a warp, a warp, a block, a cluster of blocks, more than a cluster holds; odd ones."""

ROWS = (1, 5, 16, 67)
"""Few rows, which several blocks share in different ways, and many, of which a warp has several."""

OPERATORS = ("softmax", "gelu", "rmsnorm", "layernorm", "add_rmsnorm", "cross_entropy", "swiglu", "quantize_fp8")
"""Operators on matrices of M rows. The name of the other axis is the operator's own."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dtypes", nargs="*", default=["float32", "float16", "bfloat16"])
    parser.add_argument("--only", nargs="+", choices=OPERATORS, default=OPERATORS, help="these operators")
    parser.add_argument("--providers", nargs="+", default=["cuda", "cuda-in-place"], help="default: those in CUDA")
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--rows", nargs="+", type=int, help=f"default: {ROWS}, fewer above 4096 elements")
    return parser.parse_args()


def cases(asked: argparse.Namespace) -> Iterator[tuple[str, Case]]:
    """Names of providers, and cases that they take. Short rows come first."""
    for columns, operator, name in product(asked.lengths, map(kbench.operator, asked.only), asked.providers):
        if name not in operator.providers:
            continue
        provider = operator.providers[name]
        [other] = [axis for axis in operator.axes if axis != "M"]
        rows = asked.rows or (ROWS if columns <= 4096 else ROWS[:3])
        modes = [FORWARD, *[BACKWARD] * bool(provider.backward), *[FULL] * bool(provider.full)]
        for mode, M, dtype, weights in product(modes, rows, asked.dtypes, ("same", "float32")):
            choices = {} if mode == FORWARD else {"mode": mode}
            if weights == "float32":
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
    call = Preparer(definition, operator.providers[name], {})(inputs, expected.shapes)
    outputs = call.deliver(call.run())
    return compared(expected, [y.cpu() for y in outputs]).wrong


def main() -> None:
    asked, device = arguments(), Device()
    right: Counter[str] = Counter()
    wrong = 0
    for name, case in cases(asked):
        reason = fault(case, name, device)
        print(f"{name}, {case.label}: {reason or 'right'}", flush=True)
        wrong += bool(reason)
        right[f"{case.operator} {name} {case.mode}"] += not reason
    device.synchronize()
    for what, count in right.items():
        print(f"{what}: {count} right")
    print(f"{right.total()} right, {wrong} wrong")
    sys.exit(bool(wrong) if right else 2)


if __name__ == "__main__":
    main()
