"""Matrix multiplication: an operator that is bound by arithmetic, with tile sizes to sweep.

    kbench check examples/matmul.yaml
    kbench run examples/matmul.yaml

`flops` gives the columns `tflops` and `sol`, the share of the speed of light. GB/s and the share of the copy control say
little about a kernel that is bound by arithmetic.

    kbench plot results/matmul.csv --metric tflops
"""

import math

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # without Triton the provider `triton` is "unavailable"; everything else still runs
    triton = None

matmul = kbench.Operator(
    "my_matmul",
    axes=("M", "N", "K"),
    inputs={"a": kbench.Tensor("M", "K"), "b": kbench.Tensor("K", "N")},
    outputs={"c": kbench.Tensor("M", "N")},
    reference=lambda a, b: a @ b,
    # An element is a sum of K terms. The error of the float32 sum grows with the square root of K.
    tolerance=lambda case: 8 + 2 * math.sqrt(case.K),
    # Row i of c depends on row i of a, and on all of b, which has no axis M: kbench slices a and c, and passes b whole.
    rows="M",
    flops=lambda case: 2 * case.M * case.N * case.K,
)


@matmul.provider("torch-native")
def torch_native(a, b):
    return a @ b


if triton:

    @triton.jit
    def _tiles(
        out, a, b, M, N, K, a_row, a_column, b_row, b_column,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    ):  # fmt: skip
        """One program per tile of the output. It walks along K and adds up in float32."""
        rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, K, BLOCK_K):
            depth = tl.cast(start, tl.int64) + tl.arange(0, BLOCK_K)
            left = tl.load(
                a + rows[:, None] * a_row + depth[None, :] * a_column,
                mask=(rows[:, None] < M) & (depth[None, :] < K),
                other=0.0,
            )
            right = tl.load(
                b + depth[:, None] * b_row + columns[None, :] * b_column,
                mask=(depth[:, None] < K) & (columns[None, :] < N),
                other=0.0,
            )
            # "ieee": TF32 has 10 bits of precision, which the check of a float32 case finds too few.
            total = tl.dot(left, right, total, input_precision="ieee")
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        tl.store(out + rows[:, None] * N + columns[None, :], total, mask=inside)


@matmul.provider("triton", requires="triton")
def triton_tiles(a, b, *, block_m=64, block_n=64, block_k=32, num_warps=4):
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if out.numel():
        grid = triton.cdiv(M, block_m), triton.cdiv(N, block_n)
        _tiles[grid](out, a, b, M, N, K, *a.stride(), *b.stride(), block_m, block_n, block_k, num_warps=num_warps)
    return out
