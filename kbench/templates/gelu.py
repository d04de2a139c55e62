"""My GELU: two implementations, which kbench checks and measures beside torch's.

    kbench check gelu.yaml    are they correct? on random numbers, inf, NaN, strided rows and more
    kbench run gelu.yaml      how fast are they?

Change `_gelu_elements` below, then run both commands again.
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # macOS and Windows have no Triton: there `mine` is "unavailable", and everything else runs
    triton = None

gelu = kbench.operator("gelu")  # the operator has the reference, which kbench computes in float64

if triton:

    @triton.jit
    def _gelu_elements(out, x, count, BLOCK: tl.constexpr):
        """BLOCK elements for each program. Computes in float32 for every dtype of the inputs."""
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < count).to(tl.float32)
        u = 0.7978845608 * (v + 0.044715 * v * v * v)
        tl.store(out + at, v * tl.sigmoid(2 * u), mask=at < count)  # v * sigmoid(2u) is v / 2 * (1 + tanh(u))


def exact_form(case):
    """The reason to decline a case, or None. A declined case gets a row with status `unsupported`, which is not a failure."""
    return "only the tanh form is implemented" if case.approximate == "none" else None


@gelu.provider("mine", requires="triton", supports=exact_form)
def mine(x, *, block=1024):  # keyword-only arguments can be swept: see `providers:` in gelu.yaml
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        _gelu_elements[(triton.cdiv(x.numel(), block),)](out, x, x.numel(), block)
    return out  # return a new tensor, and never change the inputs


@gelu.provider("mine-torch", supports=exact_form)
def mine_torch(x):
    """The same in plain torch. It runs on any machine."""
    v = x.float()
    return (v * torch.sigmoid(2 * 0.7978845608 * (v + 0.044715 * v**3))).to(x.dtype)
