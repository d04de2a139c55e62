"""Operators with faults of their own, of which no provider is to blame. The config names the one it wants."""

import os

import torch

import kbench


def faulty(name, **fields):
    sound = {
        "inputs": {"x": kbench.Tensor("M", "N")},
        "outputs": {"y": kbench.Tensor("M", "N")},
        "reference": lambda x: x * 2,
        "tolerance": 4,
    }
    operator = kbench.Operator(name, **({"axes": ("M", "N")} | sound | fields))
    operator.provider("right")(lambda x: x * 2)
    operator.provider("also-right")(lambda x: x + x)


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, d):
        raise ValueError("no gradient today")


def filled(fill, dtype=None):
    return {"x": kbench.Tensor("M", "N", fill=fill, dtype=dtype)}


faulty("fill-typo", inputs=filled(lambda case, draw: draw.normal(case.MM, case.N)))
faulty("fill-none", inputs=filled(lambda case, draw: None))
faulty("fill-shape", inputs=filled(lambda case, draw: draw.normal(case.N, case.M)))
faulty("fill-dtype", inputs=filled(lambda case, draw: draw.integers(0, 9, case.M, case.N)))
faulty("fill-none-in-range", inputs=filled(kbench.integers("N - 8")), reference=lambda x: x * 2)
faulty("reference-text", reference=lambda x: "twice")
faulty("reference-dtype", reference=lambda x: x > 0)
faulty("reference-sparse", reference=lambda x: x.to_sparse())
faulty("reference-device", reference=lambda x: x.to("meta"))
faulty("reference-of-two", reference=lambda x: (x, x))
faulty("reference-changes-x", reference=lambda x: x.mul_(2))
faulty("reference-random", reference=lambda x: x + torch.rand_like(x))
faulty("rows-depend", rows="M", reference=lambda x: x - x.mean(0))
faulty("rows-of-another-shape", rows="M", reference=lambda x: x * 2 if len(x) > 3 else x[:, : len(x)])
faulty("gradient-none", gradients=("x",), reference=lambda x: x.detach() * 2)
faulty("gradient-in-place", gradients=("x",), reference=lambda x: x.mul_(2))
faulty("gradient-raises", gradients=("x",), reference=lambda x: Raises.apply(x))
faulty("edge-not-a-tuple", edges={"odd": lambda case, x: x})
faulty("reference-of-a-number", reference=lambda x: [None])
faulty("edge-dtype", edges={"odd": lambda case, x: (x.double(),)})
faulty("edge-reference", edges={"odd": lambda case, x: (x[:0],)}, reference=lambda x: x * 2 + x.amax())
faulty("uneven-size", reference=lambda x: x[:, ::3], outputs={"y": kbench.Tensor("M", "N/3")})
faulty("flops-negative", flops=lambda case: -1)
faulty("flops-huge", flops=lambda case: 10**30)
faulty("flops-raises", flops=lambda case: case.K)
faulty("check-says-false", check=lambda case, inputs, outputs, expected: False)
faulty("check-says-nothing", check=lambda case, inputs, outputs, expected: " ")
faulty("check-changes-x", check=lambda case, inputs, outputs, expected: inputs["x"].zero_())
faulty("check-changes-it", check=lambda case, inputs, outputs, expected: expected["y"].sub_(outputs["y"]))
faulty("tolerance-nan", tolerance=lambda case: float("nan"))
faulty("scale-nan", scale=lambda case, reference, x: reference * float("nan"))
faulty("scale-shape", scale=lambda case, reference, x: reference[None])
faulty("scale-raises", scale=lambda case, reference, x: reference / case.K)
faulty("reference-ends-the-process", reference=lambda x: os._exit(3))
faulty("reference-in-float32", reference=lambda x: x.float() * 2)
faulty(
    "reference-quantises",
    outputs={"y": kbench.Tensor("M", "N", dtype="float8_e4m3fn")},
    reference=lambda x: x.to(torch.float8_e4m3fn),
)
faulty("only-wide", reference=lambda x: x * 2 if x.shape[1] < 100 else x[:, :missing])  # noqa: F821
