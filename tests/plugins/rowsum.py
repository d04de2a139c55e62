"""An operator whose output has another shape than its input."""

import kbench

rowsum = kbench.Operator(
    "rowsum",
    axes=("M", "N"),
    inputs=lambda case, randn: (randn(case.M, case.N),),
    reference=lambda case, x: x.sum(-1),
    bytes=lambda case: (case.M * case.N + case.M) * case.itemsize,
    tolerance=lambda case: case.N,
    rowwise=True,
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
