"""Work that depends on the drawn inputs: each row minus the mean of its segment. The segments have lengths of one sum."""

import torch

import kbench


def ends_of(case, draw):
    """Where the segments end, in a random order."""
    count, total = case.B, case.T
    lengths = torch.full((count,), total // count)
    if case.lengths == "skewed":
        lengths[1:], lengths[0] = 2, total - 2 * (count - 1)
    order = draw.uniform(0, 1, count, dtype="float64").argsort()
    return lengths.to(order.device)[order].cumsum(0).to(torch.int32)


def centred(x, ends):
    ends = ends.tolist()
    parts = x.tensor_split(ends[:-1])
    return torch.cat([part - part.mean(0) for part in parts])


def squares(case, inputs):
    ends = inputs["ends"].long()
    return int(ends.diff(prepend=ends.new_zeros(1)).square().sum())


ragged = kbench.Operator(
    "ragged",
    axes=("B", "T"),
    inputs={"x": kbench.Tensor("T", "8"), "ends": kbench.Tensor("B", dtype="int32", fill=ends_of)},
    outputs={"y": kbench.Tensor("T", "8")},
    choices={"lengths": ("equal", "skewed")},
    reference=centred,
    flops=lambda case, inputs: 1000 * squares(case, inputs),
    bytes=lambda case, inputs: squares(case, inputs),
)

ragged.provider("torch")(centred)


@ragged.provider("other-segments")
def other_segments(x, ends):
    return centred(x, (ends - 1).clamp(min=1))


@ragged.provider("drops-last")
def drops_last(x, ends):
    y = centred(x, ends)
    y[ends[-2] :] = 0
    return y


plans = {}


@ragged.provider("plans-by-pointer")
def plans_by_pointer(x, ends):
    return centred(x, plans.setdefault(ends.data_ptr(), ends.clone()))
