"""Softmaxes with an honest mistake. A judge must find each of them."""

import random

import torch

import kbench

softmax = kbench.operator("softmax")


def plain(x):
    if x.shape[1] == 0:
        return torch.empty_like(x)
    e = (x.float() - x.float().amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


@softmax.provider("without_maximum")
def without_maximum(x):
    """One edge: large values overflow."""
    e = x.float().exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


@softmax.provider("short_sum")
def short_sum(x):
    """One dtype: adds up in the dtype of the input, which has too few digits if it is bfloat16."""
    if x.dtype != torch.bfloat16 or x.shape[1] == 0:
        return plain(x)
    e, total = (x - x.amax(-1, keepdim=True)).exp(), x.new_zeros(len(x), 1)
    for column in e.split(1, 1):
        total = total + column
    return e / total


@softmax.provider("without_last_rows")
def without_last_rows(x):
    """Tail rows: a program takes eight rows, and nobody takes the rest."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    whole = len(x) // 8 * 8
    out[:whole] = plain(x[:whole])
    return out


@softmax.provider("columns_by_size")
def columns_by_size(x):
    """One shape: tells the axes apart by their sizes, which fails for squares."""
    return plain(x.t()).t().contiguous() if x.shape[0] == x.shape[1] else plain(x)


@softmax.provider("one_block")
def one_block(x):
    """Long rows: reads the first 512 columns, and fills the others with zeros."""
    out = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    out[:, :512] = plain(x[:, :512])
    return out


@softmax.provider("short_offsets")
def short_offsets(x):
    """Offsets wrap at 2^12 elements, as those of int32 do at 2^31."""
    flat = x.reshape(-1)
    return plain(flat[torch.arange(x.numel(), device=x.device) % 2**12].view(x.shape))


@softmax.provider("by_offsets_of_dense_rows")
def by_offsets_of_dense_rows(x):
    """Reads memory as if rows had no gaps between them."""
    return plain(x.as_strided(x.shape, (x.shape[1], 1)))


@softmax.provider("online_without_guard")
def online_without_guard(x):
    """One edge: a first block of -inf has no maximum, and -inf minus -inf is NaN."""
    top = torch.full((len(x), 1), -torch.inf, device=x.device)
    total = torch.zeros_like(top)
    for block in x.float().split(16, 1) if x.shape[1] else ():
        new_top = torch.maximum(top, block.amax(-1, keepdim=True))
        total = total * (top - new_top).exp() + (block - new_top).exp().sum(-1, keepdim=True)
        top = new_top
    return ((x.float() - top).exp() / total).to(x.dtype)


CHANCE = random.Random(1)


@softmax.provider("race")
def race(x):
    """Non-determinism: in one call of forty, the last row is read before it is written."""
    y = plain(x)
    if CHANCE.random() < 1 / 40:
        y[-1:] = 0
    return y


PADDED = {}


@softmax.provider("dirty_padding")
def dirty_padding(x):
    """A buffer for each padded shape, of which the padding is filled only once."""
    M, N = x.shape
    padded = PADDED.setdefault((M, -N // 64), torch.full((M, 64 * -(-N // 64)), -torch.inf, device=x.device))
    padded[:, :N] = x
    return plain(padded)[:, :N].to(x.dtype).contiguous()
