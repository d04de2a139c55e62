"""Several inputs and outputs, a scalar and a choice, and providers that are right, wrong, or cannot run."""

import torch

import kbench


def reference(x, weight, index, *, factor, form):
    half = x.shape[1] // 2
    y = (x[:, :half] + x[:, half:]) * weight * factor
    return (y if form == "plain" else y.square()), x.gather(1, index[:, None])[:, 0]


pairs = kbench.Operator(
    "pairs",
    axes=("M", "D"),
    inputs={
        "x": kbench.Tensor("M", "D"),
        "weight": kbench.Tensor("D/2", fill=lambda case, draw: draw.uniform(3, 5, case.D // 2)),
        "index": kbench.Tensor("M", dtype="int64", fill=kbench.integers("D")),
    },
    outputs={"y": kbench.Tensor("M", "D/2"), "picked": kbench.Tensor("M", dtype="float32")},
    scalars={"factor": 2.0},
    choices={"form": ("plain", "squared")},
    reference=reference,
    rows="M",
    flops=lambda case: 1000 * case.M * case.D,
)


def compute(x, weight, index, factor, form):
    y, picked = reference(x.float(), weight.float(), index, factor=factor, form=form)
    return y.to(x.dtype), picked


@pairs.provider("torch", moved_bytes=lambda case: 12345)
def of_torch(x, weight, index, *, factor, form):
    return compute(x, weight, index, factor, form)


@pairs.provider("within-tolerance")
def within_tolerance(x, weight, index, *, factor, form):
    y, picked = compute(x, weight, index, factor, form)
    return y, picked * (1 + 2**-20)


@pairs.provider("beyond-tolerance")
def beyond_tolerance(x, weight, index, *, factor, form):
    y, picked = compute(x, weight, index, factor, form)
    return y, picked * (1 + 2**-14)


@pairs.provider("factory", factory=True)
def factory(case, *, factor, form, block=8):
    if not (case.M == 8 and case.factor == factor and case.form == form and case.dtype in ("float32", "bfloat16")):
        raise RuntimeError(f"the case is {case}")
    return lambda x, weight, index: compute(x, weight, index, factor, form)


@pairs.provider("looks-at-inputs")
def looks_at_inputs(x, weight, index, *, factor, form):
    if not (x.dtype == weight.dtype and weight.shape == (x.shape[1] // 2,) and weight.min() >= 3 and weight.max() <= 5):
        raise RuntimeError("weight is not as its fill says")
    if not (index.dtype == torch.int64 and index.shape == (8,) and index.min() >= 0 and index.max() < x.shape[1]):
        raise RuntimeError("index is not as its fill says")
    return compute(x, weight, index, factor, form)


@pairs.provider("default-only")
def default_only(x, weight, index):
    return compute(x, weight, index, 2.0, "plain")


@pairs.provider("raises-unsupported")
def raises_unsupported(x, weight, index, *, factor, form):
    raise kbench.Unsupported("only on Sundays")


pairs.provider("declines", supports=lambda case: "D is below 8" if case.D < 8 else None)(of_torch)
pairs.provider("without-package", requires=("torch", "a_package_that_nobody_has"))(of_torch)
pairs.provider("not-available", available=lambda: "the licence has expired")(of_torch)
pairs.provider("other-device", devices=("npu",))(of_torch)


@pairs.provider("one-output")
def one_output(x, weight, index, *, factor, form):
    return compute(x, weight, index, factor, form)[0]


@pairs.provider("expanded")
def expanded(x, weight, index, *, factor, form):
    y, picked = compute(x, weight, index, factor, form)
    return y, picked[:1].expand(8)
