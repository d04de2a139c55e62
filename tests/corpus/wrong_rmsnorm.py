"""RMS norms with an honest mistake. A judge must find each of them."""

import torch

import kbench

rmsnorm = kbench.operator("rmsnorm")


def plain(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


@rmsnorm.provider("eps_outside_of_the_root")
def eps_outside_of_the_root(x, weight, *, eps):
    """Adds eps to the root, and not to the mean of the squares."""
    wide = x.float()
    return (wide / (wide.square().mean(-1, keepdim=True).sqrt() + eps) * weight).to(x.dtype)


@rmsnorm.provider("eps_of_its_own")
def eps_of_its_own(x, weight, *, eps):
    """Ignores the eps of its caller."""
    return plain(x, weight, 1e-5)


@rmsnorm.provider("squares_in_short_dtype")
def squares_in_short_dtype(x, weight, *, eps):
    """One edge of one dtype: squares in float16 overflow. The sum is in float32."""
    squares = x.square().float()
    return (x.float() * torch.rsqrt(squares.mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


@rmsnorm.provider("mean_of_the_block")
def mean_of_the_block(x, weight, *, eps):
    """Divides by the power of two that holds a row."""
    block = 1 << max(x.shape[1] - 1, 0).bit_length()
    wide = x.float()
    mean = wide.square().sum(-1, keepdim=True) / block
    return (wide * torch.rsqrt(mean + eps) * weight).to(x.dtype)


@rmsnorm.provider("changes_its_input")
def changes_its_input(x, weight, *, eps):
    """Writes the products into its input."""
    y = plain(x, weight, eps)
    x.mul_(weight)
    return y


@rmsnorm.provider("sum_that_is_not_cleared", factory=True)
def sum_that_is_not_cleared(case):
    """Adds up in a buffer for each shape, which is zero in the first call only."""
    sums = {}

    def call(x, weight):
        total = sums.setdefault(x.shape, torch.zeros(len(x), 1, device=x.device))
        total += x.float().square().sum(-1, keepdim=True)
        return (x.float() * torch.rsqrt(total / x.shape[1] + case.eps) * weight).to(x.dtype)

    return call
