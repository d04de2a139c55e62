"""Matrix products with an honest mistake. A judge must find each of them."""

import torch

import kbench

matmul = kbench.operator("matmul")


def plain(a, b):
    return (a.float() @ b.float()).to(a.dtype)


@matmul.provider("without_the_end_of_k")
def without_the_end_of_k(a, b):
    """Leaves out the end of K if it is no multiple of 16."""
    K = a.shape[1] // 16 * 16
    return plain(a[:, :K], b[:K])


@matmul.provider("short_sum")
def short_sum(a, b):
    """Adds up in the dtype of the inputs, after every 8 products."""
    total = a.new_zeros(len(a), b.shape[1])
    for left, right in zip(a.split(8, 1), b.split(8, 0), strict=True):
        total = total + plain(left, right)
    return total


@matmul.provider("short_mantissa")
def short_mantissa(a, b):
    """One dtype: float32 loses 13 bits, as in TF32."""
    if a.dtype != torch.float32:
        return plain(a, b)
    mask = ~0x1FFF
    left, right = ((x.contiguous().view(torch.int32) & mask).view(torch.float32) for x in (a, b))
    return left @ right


@matmul.provider("view_of_a_kept_buffer", factory=True)
def view_of_a_kept_buffer(case):
    """Returns a part of a large buffer that the next call overwrites."""
    buffer = torch.empty(0)

    def call(a, b):
        nonlocal buffer
        M, N = len(a), b.shape[1]
        if len(buffer) < M * N:
            buffer = torch.empty(max(2**17, M * N), device=a.device)
        out = buffer[: M * N].view(M, N).copy_(a.float() @ b.float())
        return out if a.dtype == torch.float32 else out.to(a.dtype)

    return call
