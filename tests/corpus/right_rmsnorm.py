"""RMS norms that are right, fast or slow. A judge must accept them."""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

rmsnorm = kbench.operator("rmsnorm")


def plain(x, weight, *, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


@rmsnorm.provider("float64")
def float64(x, weight, *, eps):
    """Computes in float64."""
    wide = x.double()
    return (wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * weight).to(x.dtype)


@rmsnorm.provider("rounded_twice", supports=lambda case: "loses digits" if case.dtype == "float16" else None)
def rounded_twice(x, weight, *, eps):
    """Rounds to the dtype of the input before it multiplies by the weight, as the models of Hugging Face do. A small float16
    value then loses digits."""
    wide = x.float()
    normal = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)
    return (normal * weight).to(x.dtype)


@rmsnorm.provider("by_matrix_product", factory=True)
def by_matrix_product(case):
    """Adds the squares up with a matrix product. It keeps the vector of 1/N for each length."""
    factors = {}

    def call(x, weight):
        N = x.shape[1]
        wide = x.float()
        factor = factors.setdefault(N, torch.full((N, 1), 1 / N, device=x.device))
        return (wide / (wide.square() @ factor + case.eps).sqrt() * weight).to(x.dtype)

    return call


@rmsnorm.provider("by_vector_norm")
def by_vector_norm(x, weight, *, eps):
    """Uses the norm of a row that torch has."""
    wide = x.float()
    norms = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return (wide / (norms * norms / x.shape[1] + eps).sqrt() * weight).to(x.dtype)


@rmsnorm.provider("into_a_buffer", out=["y"])
def into_a_buffer(x, weight, *, eps, y):
    """Writes into the buffer that its caller gives it."""
    y.copy_(plain(x, weight, eps=eps))


@rmsnorm.provider("by_parts")
def by_parts(x, weight, *, eps):
    """Adds the squares up in blocks of 32 columns, in float64."""
    total = torch.zeros(len(x), 1, dtype=torch.float64, device=x.device)
    for block in x.split(32, 1):
        total += block.double().square().sum(-1, keepdim=True)
    return (x.float() * torch.rsqrt(total / x.shape[1] + eps).float() * weight).to(x.dtype)


if triton:

    @triton.jit
    def row_kernel(out, x, weight, stride, column_stride, N, eps, BLOCK: tl.constexpr):
        row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        mask = columns < N
        values = tl.load(x + row * stride + columns * column_stride, mask=mask, other=0.0).to(tl.float32)
        factors = tl.load(weight + columns, mask=mask, other=0.0).to(tl.float32)
        scale = 1 / tl.sqrt(tl.sum(values * values, 0) / N + eps)
        tl.store(out + row * N + columns, values * scale * factors, mask=mask)

    def many_rows(case):
        """The interpreter needs milliseconds for a program."""
        return "M > 64 on a host" if case.M > 64 and not torch.cuda.is_available() else None

    @rmsnorm.provider("triton_row", requires="triton", supports=many_rows)
    def triton_row(x, weight, *, eps):
        """One program for each row, with the strides of the input."""
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            N = x.shape[1]
            row_kernel[(len(x),)](out, x, weight, *x.stride(), N, eps, triton.next_power_of_2(N))
        return out
