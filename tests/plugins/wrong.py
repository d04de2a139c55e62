"""Implementations of softmax that are wrong in the ways people's kernels are. Each has to be caught at every N."""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("unwritten-tail")
def unwritten_tail(x):
    out = torch.empty_like(x)
    out[:, :-1] = torch.softmax(x, -1)[:, :-1]
    return out


@softmax.provider("identity")
def identity(x):
    return x


@softmax.provider("copied-input")
def copied_input(x):
    return x.clone()


@softmax.provider("zeros")
def zeros(x):
    return torch.zeros_like(x)


@softmax.provider("uniform")
def uniform(x):
    return torch.full_like(x, 1 / x.shape[-1])


@softmax.provider("all-nan")
def nan(x):
    return torch.full_like(x, float("nan"))


@softmax.provider("bf16")
def bf16(x):
    return torch.softmax(x, -1).to(torch.bfloat16)


@softmax.provider("rounded")
def rounded(x):
    """The right dtype with the wrong digits in it."""
    return torch.softmax(x, -1).to(torch.bfloat16).to(x.dtype)


@softmax.provider("in-place")
def in_place(x):
    out = torch.softmax(x, -1)
    x.copy_(out)
    return out


@softmax.provider("transposed-shape")
def transposed_shape(x):
    return torch.softmax(x, -1)[:, :-1]


@softmax.provider("nothing")
def none(x):
    return None


@softmax.provider("gives-up", factory=True)
def gives_up(case):
    """Right twice, then no tensor at all."""
    calls = []

    def call(x):
        calls.append(x.shape)
        return torch.softmax(x, -1) if len(calls) <= 2 else None

    return call


@softmax.provider("first-call-only", factory=True)
def first_call_only(case):
    remembered = []

    def call(x):
        if not remembered:
            remembered.append(torch.softmax(x, -1))
        return remembered[0].clone()

    return call


@softmax.provider("after-many-calls", factory=True)
def after_many_calls(case):
    """Right until it has been called often: only a check after timing finds it."""
    calls = [0]

    def call(x):
        calls[0] += 1
        return torch.softmax(x, -1) if calls[0] < 6 else torch.zeros_like(x)

    return call


@softmax.provider("by-pointer", factory=True)
def by_pointer(case):
    """Remembers its output by the address of the input."""
    remembered = {}

    def call(x):
        if x.data_ptr() not in remembered:
            remembered[x.data_ptr()] = (x.clone(), torch.softmax(x, -1))
        return remembered[x.data_ptr()][1].clone()

    return call


@softmax.provider("in-place-later", factory=True)
def in_place_later(case):
    """Leaves its input alone until the checks are over."""
    calls = [0]

    def call(x):
        calls[0] += 1
        out = torch.softmax(x, -1)
        if calls[0] > 3:
            x.add_(1)
        return out

    return call
