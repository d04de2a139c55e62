"""Cross-entropy of integer labels: an operator with an integer input and one number per row as output.

kbench check examples/cross_entropy.yaml
kbench run examples/cross_entropy.yaml
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # without Triton the provider `triton` is "unavailable"; everything else still runs
    triton = None


def reference(logits, labels):
    """The loss of each row. Floating-point inputs arrive as float64, the labels as they are."""
    return logits.logsumexp(-1) - logits.gather(1, labels[:, None])[:, 0]


cross_entropy = kbench.Operator(
    "my_cross_entropy",
    axes=("M", "V"),
    inputs={
        "logits": kbench.Tensor("M", "V"),
        "labels": kbench.Tensor("M", dtype="int64", fill=kbench.integers("V")),  # from 0 to V - 1
    },
    outputs={"loss": kbench.Tensor("M")},
    reference=reference,
    rows="M",  # the loss of row i depends on row i of the logits and on label i only
    # `kbench check` tries these inputs, too.
    edges={
        "large offset": lambda case, logits, labels: (logits + 100, labels),
        "first label": lambda case, logits, labels: (logits, torch.zeros_like(labels)),
        "last label": lambda case, logits, labels: (logits, torch.full_like(labels, case.V - 1)),
        "first half masked": lambda case, logits, labels: (
            torch.where(torch.arange(case.V, device=logits.device) < case.V // 2, float("-inf"), logits),
            torch.full_like(labels, case.V - 1),
        ),
        "one row": lambda case, logits, labels: (logits[:1], labels[:1]),
        "no rows": lambda case, logits, labels: (logits[:0], labels[:0]),
    },
)


@cross_entropy.provider("torch-native")
def torch_native(logits, labels):
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


if triton:
    # A maximum to start from. It is not -inf: in a row that begins with a block of -inf, -inf - -inf would be NaN.
    SMALLEST = tl.constexpr(torch.finfo(torch.float32).min)

    @triton.jit
    def _cross_entropy_rows(out, logits, labels, stride, V, BLOCK: tl.constexpr):
        """One program per row reads the row once, in blocks, with a running maximum and a running sum in float32."""
        row = tl.program_id(0).to(tl.int64)
        logits += row * stride
        maximum = tl.full((), SMALLEST, tl.float32)
        total = tl.zeros((), tl.float32)
        for start in range(0, V, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            values = tl.load(logits + columns, mask=columns < V, other=float("-inf")).to(tl.float32)
            larger = tl.maximum(maximum, tl.max(values, 0))
            total = total * tl.exp(maximum - larger) + tl.sum(tl.exp(values - larger), 0)
            maximum = larger
        label = tl.load(labels + row)
        tl.store(out + row, maximum - tl.load(logits + label).to(tl.float32) + tl.log(total))


@cross_entropy.provider("triton", requires="triton")
def triton_rows(logits, labels, *, block=1024, num_warps=4):
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    out = torch.empty(logits.shape[0], dtype=logits.dtype, device=logits.device)
    if out.numel():
        rows, classes = logits.shape
        _cross_entropy_rows[(rows,)](out, logits, labels, logits.stride(0), classes, block, num_warps=num_warps)
    return out
