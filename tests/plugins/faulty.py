"""Operators with faults of their own, of which no provider is to blame. The config names the one it wants."""

import os

import kbench


def faulty(name, **fields):
    sound = {
        "inputs": {"x": kbench.Tensor("M", "N")},
        "outputs": {"y": kbench.Tensor("M", "N")},
        "reference": lambda x: x * 2,
        "tolerance": 4,
    }
    operator = kbench.Operator(name, axes=("M", "N"), **(sound | fields))
    operator.provider("right")(lambda x: x * 2)
    operator.provider("also-right")(lambda x: x + x)


def filled(fill):
    return {"x": kbench.Tensor("M", "N", fill=fill)}


faulty("fill-typo", inputs=filled(lambda case, draw: draw.normal(case.MM, case.N)))
faulty("fill-none", inputs=filled(lambda case, draw: None))
faulty("fill-shape", inputs=filled(lambda case, draw: draw.normal(case.N, case.M)))
faulty("fill-dtype", inputs=filled(lambda case, draw: draw.integers(0, 9, case.M, case.N)))
faulty("reference-raises", reference=lambda x: x @ x)
faulty("reference-text", reference=lambda x: "twice")
faulty("reference-shape", reference=lambda x: x[:, :-1])
faulty("reference-dtype", reference=lambda x: x > 0)
faulty("reference-of-two", reference=lambda x: (x, x))
faulty("uneven-size", reference=lambda x: x[:, ::3], outputs={"y": kbench.Tensor("M", "N/3")})
faulty("flops-text", flops=lambda case: "many")
faulty("check-says-false", check=lambda case, inputs, outputs, expected: False)
faulty("bytes-text", bytes=lambda case: "many")
faulty("tolerance-nan", tolerance=lambda case: float("nan"))
faulty("scale-raises", scale=lambda case, reference, x: reference / case.K)
faulty("reference-ends-the-process", reference=lambda x: os._exit(3))
faulty("only-wide", reference=lambda x: x * 2 if x.shape[1] < 100 else x[:, :missing])  # noqa: F821
