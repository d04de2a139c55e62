"""My softmax: two implementations, which kbench checks and measures beside torch's.

    kbench check softmax.yaml    are they correct? on random numbers, -inf, NaN, strided rows and more
    kbench run softmax.yaml      how fast are they?

Change `_softmax_rows` below, then run both commands again.
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # macOS and Windows have no Triton: there `mine` is "unavailable", and everything else runs
    triton = None

softmax = kbench.operator("softmax")  # the operator has the reference, which kbench computes in float64

if triton:

    @triton.jit
    def _softmax_rows(out, x, stride, N, BLOCK: tl.constexpr):
        """One program for each row, held in registers. Computes in float32 for every dtype of the inputs."""
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
        exponentials = tl.exp(values - tl.max(values, 0))
        tl.store(out + row * N + columns, exponentials / tl.sum(exponentials, 0), mask=columns < N)


def too_long(case):
    """The reason to decline a case, or None. A declined case gets a row with status `unsupported`, which is not a failure."""
    return "N > 65536: a whole row does not fit in the registers of one program" if case.N > 65536 else None


@softmax.provider("mine", requires="triton", supports=too_long)
def mine(x, *, num_warps=4):  # keyword-only arguments can be swept: see `providers:` in softmax.yaml
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        x = x if x.stride(1) == 1 else x.contiguous()
        rows, columns = x.shape
        _softmax_rows[(rows,)](out, x, x.stride(0), columns, triton.next_power_of_2(columns), num_warps=num_warps)
    return out  # return a new tensor, and never change the inputs


@softmax.provider("mine-torch")
def mine_torch(x):
    """The same in plain torch. It runs on any machine."""
    if not x.numel():
        return torch.empty_like(x)
    exponentials = (x.float() - x.float().amax(-1, keepdim=True)).exp()
    return (exponentials / exponentials.sum(-1, keepdim=True)).to(x.dtype)
