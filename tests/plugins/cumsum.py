"""A whole operator of one's own: axes, tensors, reference and two providers."""

import kbench

cumsum = kbench.Operator(
    "cumsum",
    axes=("ROWS", "LENGTH"),
    choices={"order": ("forward", "backward")},
    inputs={"x": kbench.Tensor("ROWS", "LENGTH")},
    outputs={"y": kbench.Tensor("ROWS", "LENGTH")},
    reference=lambda x, *, order: x.cumsum(-1) if order == "forward" else x.flip(-1).cumsum(-1).flip(-1),
    tolerance=64.0,
    rows="ROWS",
    scale=lambda case, reference, x: x.abs().cumsum(-1).amax(-1, keepdim=True).expand_as(reference),
)


@cumsum.provider("torch")
def torch_cumsum(x, *, order):
    return x.cumsum(-1) if order == "forward" else x.flip(-1).cumsum(-1).flip(-1)


@cumsum.provider("blocked", supports=lambda case: "LENGTH must be even" if case.LENGTH % 2 else None)
def blocked(x, *, order, blocks=2):
    if order == "backward":
        return blocked(x.flip(-1), order="forward", blocks=blocks).flip(-1)
    parts = x.unflatten(-1, (blocks, -1)).cumsum(-1)
    carry = parts[..., -1].cumsum(-1).roll(1, -1)
    carry[..., 0] = 0
    return (parts + carry.unsqueeze(-1)).flatten(-2)
