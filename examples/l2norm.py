"""L2 normalisation of rows, y = x / sqrt(sum(x^2) + eps): forward, backward, and both.

    kbench check examples/l2norm.yaml
    kbench run examples/l2norm.yaml

`mode` in l2norm.yaml says what is measured. kbench draws one gradient of y for each case, gives it to all providers, and
checks the gradient of x against autograd of the reference in float64.
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # without Triton the provider `triton` is "unavailable"; everything else still runs
    triton = None

l2norm = kbench.Operator(
    "l2norm",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N")},
    outputs={"y": kbench.Tensor("M", "N")},
    scalars={"eps": 1e-6},
    # Autograd differentiates the reference, so it must be made of torch functions.
    reference=lambda x, *, eps: x / (x.square().sum(-1, keepdim=True) + eps).sqrt(),
    gradients=["x"],  # the inputs that have a gradient
    rows="M",
)


@l2norm.provider("torch-native")
def torch_native(x, *, eps):
    """Autograd can differentiate this function, so it needs no backward function: kbench times `torch.autograd.grad`."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + eps)).to(x.dtype)


@l2norm.provider("torch-compile", factory=True)
def torch_compile(case, *, eps):
    """torch.compile makes a kernel for each direction."""
    return torch.compile(lambda x: torch_native(x, eps=eps), dynamic=False)


if triton:

    @triton.jit
    def _forward_rows(y, factors, x, stride, N, eps, BLOCK: tl.constexpr):
        """One program per row. It stores the factor of the row for the backward pass."""
        row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        factor = 1 / tl.sqrt(tl.sum(values * values, 0) + eps)
        tl.store(factors + row, factor)
        tl.store(y + row * N + columns, values * factor, mask=columns < N)

    @triton.jit
    def _backward_rows(d_x, d_y, x, factors, d_y_stride, x_stride, N, BLOCK: tl.constexpr):
        row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        factor = tl.load(factors + row)
        gradient = tl.load(d_y + row * d_y_stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        unit = tl.load(x + row * x_stride + columns, mask=columns < N, other=0.0).to(tl.float32) * factor
        along = tl.sum(gradient * unit, 0)
        tl.store(d_x + row * N + columns, (gradient - along * unit) * factor, mask=columns < N)


def too_long(case):
    """The reason to decline a case, or None. A declined case gets the status `unsupported`."""
    return "N > 65536: one program cannot hold a whole row" if case.N > 65536 else None


def dense(x):
    return x if x.stride(1) == 1 else x.contiguous()


def forward_saving(x, *, eps, num_warps=4):
    """The output, and what the backward kernel needs from the forward pass: the factor of each row."""
    x = dense(x)
    rows, columns = x.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    factors = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        block = triton.next_power_of_2(columns)
        _forward_rows[(rows,)](y, factors, x, x.stride(0), columns, eps, block, num_warps=num_warps)
    return y, factors


@l2norm.provider("triton", requires="triton", supports=too_long)
def triton_rows(x, *, eps, num_warps=4):
    """A raw kernel. Autograd cannot differentiate it."""
    return forward_saving(x, eps=eps, num_warps=num_warps)[0]


@l2norm.backward("triton", saves=forward_saving)
def triton_backward(d_y, x, factors, *, num_warps=4):
    """The backward kernel of `triton`. It gets the gradient of y, the inputs, and what `forward_saving` has saved. In mode
    `backward`, kbench calls `forward_saving` before the clock starts. In mode `full` it is part of the time."""
    x, d_y = dense(x), dense(d_y)
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        rows, columns = x.shape
        strides, block = (d_y.stride(0), x.stride(0)), triton.next_power_of_2(columns)
        _backward_rows[(rows,)](d_x, d_y, x, factors, *strides, columns, block, num_warps=num_warps)
    return d_x
