"""Operators with faults of their own, of which no provider is to blame. The config names the one it wants."""

import os

import kbench


def faulty(name, **fields):
    sound = {
        "inputs": lambda case, randn: (randn(case.M, case.N),),
        "reference": lambda case, x: x * 2,
        "bytes": lambda case: 2 * case.M * case.N * case.itemsize,
        "tolerance": lambda case: 4,
    }
    operator = kbench.Operator(name, axes=("M", "N"), **(sound | fields))
    operator.provider("right")(lambda x: x * 2)
    operator.provider("also-right")(lambda x: x + x)


faulty("inputs-typo", inputs=lambda case, randn: (randn(case.MM, case.N),))
faulty("inputs-none", inputs=lambda case, randn: None)
faulty("reference-raises", reference=lambda case, x: x @ x)
faulty("reference-text", reference=lambda case, x: "twice")
faulty("bytes-text", bytes=lambda case: "many")
faulty("tolerance-nan", tolerance=lambda case: float("nan"))
faulty("scale-raises", scale=lambda case, reference, x: reference / case.K)
faulty("reference-ends-the-process", reference=lambda case, x: os._exit(3))
faulty("only-wide", reference=lambda case, x: x * 2 if case.N < 100 else x[:, : case.K])
