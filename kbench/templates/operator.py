"""An operator of my own and two implementations of it, which kbench checks and measures.

    kbench check my_operator.yaml    are they correct?
    kbench run my_operator.yaml      how fast are they?

The example is a row-wise RMS norm: y = x / sqrt(mean(x^2) + eps) * weight. Replace it with your own operator, one field
after another, and run both commands again.
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # macOS and Windows have no Triton: there `mine` is "unavailable", and everything else runs
    triton = None

EPS = 1e-6


def reference(x, weight):
    """The correct output. The inputs are float64. Write the plain definition; it need not be fast."""
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight


operator = kbench.Operator(
    "my_operator",
    axes=("M", "N"),
    # the tensors that every implementation gets and returns, with their axes; other dtypes, sizes and values: see
    # `kbench.Tensor`
    inputs={"x": kbench.Tensor("M", "N"), "weight": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("M", "N")},
    reference=reference,
    # the allowed error, in units in the last place of float32: about one for each operation, and more for the mean
    tolerance=16,
    # each row of the output depends on the same row of x only, so kbench can check a large output in slices of rows
    rows="M",
)


@operator.provider("torch")
def torch_version(x, weight):
    """The implementation that people use today. It is the baseline."""
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)


if triton:

    @triton.jit
    def _rms_norm(out, x, weight, stride, N, eps, BLOCK: tl.constexpr):
        """One program for each row, held in registers. Computes in float32 for every dtype of the inputs."""
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        scale = 1 / tl.sqrt(tl.sum(values * values, 0) / N + eps)
        factors = tl.load(weight + columns, mask=columns < N, other=0.0).to(tl.float32)
        tl.store(out + row * N + columns, values * scale * factors, mask=columns < N)


def too_long(case):
    """The reason to decline a case, or None. A declined case gets a row with status `unsupported`, which is not a failure."""
    return "N > 65536: a whole row does not fit in the registers of one program" if case.N > 65536 else None


@operator.provider("mine", requires="triton", supports=too_long)
def mine(x, weight, *, num_warps=4):  # keyword-only arguments can be swept: see `providers:` in my_operator.yaml
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        x = x if x.stride(1) == 1 else x.contiguous()
        weight = weight.contiguous()
        rows, columns = x.shape
        _rms_norm[(rows,)](
            out, x, weight, x.stride(0), columns, EPS, triton.next_power_of_2(columns), num_warps=num_warps
        )
    return out  # return a new tensor, and never change the inputs
