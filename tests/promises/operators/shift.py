"""Axes, scalars, choices, modes, models and parameters: all that a config can sweep."""

import kbench

shift = kbench.Operator(
    "shift",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N")},
    outputs={"y": kbench.Tensor("M", "N/2")},
    scalars={"eps": 1e-6, "times": 1, "causal": False},
    choices={"form": ("plain", "squared")},
    reference=lambda x, *, eps, times, causal, form: x[:, ::2] * times + eps,
    gradients="x",
    rows="M",
    model_axes={"M": "tokens", "N": "hidden"},
)


@shift.provider("torch")
def of_torch(x, *, eps, times, causal, form):
    return x[:, ::2] * times + eps


@shift.provider("mine", requires="a_package_that_nobody_has")
def mine(x, *, eps, times, causal, form, block=64, warps=4):
    return x[:, ::2] * times + eps
