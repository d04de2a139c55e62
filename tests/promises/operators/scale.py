"""Gradients: of autograd, of a backward kernel, of a function for both passes, wrong, and none."""

import kbench

scale = kbench.Operator(
    "scale",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N"), "weight": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("M", "N")},
    reference=lambda x, weight: x * x * weight,
    gradients=("x", "weight"),
    rows="M",
)


@scale.provider("autograd")
def autograd(x, weight):
    return x * x * weight


@scale.provider("opaque")
def opaque(x, weight):
    return x.detach() * x.detach() * weight.detach()


def gradients(d_y, x, weight):
    return 2 * x * weight * d_y, (d_y * x * x).sum(0)


for name in ("kernel", "saves", "both-at-once", "wrong-gradient"):
    scale.provider(name)(opaque)


@scale.backward("kernel")
def kernel_backward(d_y, x, weight):
    return gradients(d_y, x, weight)


@scale.backward("saves", saves=lambda x, weight: (opaque(x, weight), 2 * x * weight))
def saves_backward(d_y, x, weight, saved):
    return saved * d_y, (d_y * x * x).sum(0)


@scale.full("both-at-once")
def both_at_once_full(d_y, x, weight):
    return opaque(x, weight), gradients(d_y, x, weight)


@scale.backward("wrong-gradient")
def wrong_gradient_backward(d_y, x, weight):
    d_x, d_weight = gradients(d_y, x, weight)
    return d_x, d_weight / 2
