"""An operator whose output has another shape than its input."""

import kbench

rowsum = kbench.Operator(
    "rowsum",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N")},
    outputs={"sum": kbench.Tensor("M")},
    reference=lambda x: x.sum(-1),
    tolerance=lambda case: case.N,
    rows="M",
    scale=lambda case, reference, x: x.abs().sum(-1),
    edges={"no rows": lambda case, x: (x[:0],), "one column": lambda case, x: (x[:, :1],)},
)


@rowsum.provider("torch")
def torch_sum(x):
    return x.sum(-1)


@rowsum.provider("matrix")
def matrix(x):
    return x.sum(-1, keepdim=True)


@rowsum.provider("unwritten")
def unwritten(x):
    out = x.new_empty(x.shape[0])
    out[:-1] = x.sum(-1)[:-1]
    return out
