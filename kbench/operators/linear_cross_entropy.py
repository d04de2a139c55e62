"""The last layer of a language model and its loss in one: hidden states, the weight of the vocabulary and labels to the mean
cross-entropy and its gradients. The logits would take more memory than all else, so kernels compute them in parts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from kbench.contract.operator import Operator
from kbench.contract.provider import Unsupported
from kbench.contract.tensor import Tensor, integers, normal
from kbench.kernels.libraries import any_of, only_dtypes
from kbench.kernels.matrices import dense_like, new_rows
from kbench.kernels.torch_fused import add_compiled
from kbench.operators.cross_entropy.providers_triton import BOTH, LOSSES
from kbench.results.case import BACKWARD, FORWARD, FULL, Case
from kbench.results.vocabulary import EdgeInput

LOGITS = 2**26
"""The most logits that the reference holds at once, and about as many as `torch-chunks` does."""

CHUNK_BYTES = 2**29
"""Of the logits of a chunk of `triton`. Each chunk reads and writes the gradient of the weight, so few take less time."""

MOST_CHUNKS = 8
"""Chunks of `torch-chunks`, which adds up their gradients of the weight in its dtype. With 8, the worst of 10^6 is off by 5.2
units of bfloat16; more would lose more."""


def _sum_of_losses(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logits = hidden @ weight.T
    top = logits.detach().amax(-1, keepdim=True)
    losses = (logits - top).exp().sum(-1).log() + top[:, 0] - logits.gather(1, labels[:, None])[:, 0]
    return losses.sum()


def _reference(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """In parts of the tokens. A backward pass computes the logits again."""
    rows = max(1, LOGITS // weight.shape[0])
    parts = zip(hidden.split(rows), labels.split(rows), strict=True)
    sums = [
        checkpoint(_sum_of_losses, part, weight, its_labels, use_reentrant=False, preserve_rng_state=False)
        for part, its_labels in parts
    ]
    return torch.stack(sums).sum() / len(labels)


def _flops(case: Case) -> int:
    """A product forward, and one for each of the two gradients."""
    return {FORWARD: 2, BACKWARD: 4, FULL: 6}[case.mode] * int(case.T) * int(case.H) * int(case.V)


def _of_loss(case: Case) -> float:
    """Kernels round logits, which are about 1, to the dtype of the case. The mean of the losses keeps the mean of the roundings
    of the labels' logits: 461 units for 8 tokens in bfloat16, 23 for 256."""
    return 16 + (1200 / math.sqrt(max(1, case.T)) if case.itemsize == 2 else 48)


linear_cross_entropy = Operator(
    "linear_cross_entropy",
    axes=("T", "H", "V"),
    inputs={
        "hidden": Tensor("T", "H", tolerance=lambda case: 8 + 2 * math.sqrt(case.V), ulps=3),
        # chunks of tokens are added up in the dtype of the case: 32 of them in Liger
        "weight": Tensor("V", "H", fill=normal(0, 0.02), tolerance=lambda case: 8 + 2 * math.sqrt(case.T), ulps=8),
        "labels": Tensor("T", dtype="int64", fill=integers("V")),
    },
    outputs={"loss": Tensor(dtype="float32", tolerance=_of_loss)},
    reference=_reference,
    gradients=("hidden", "weight"),
    flops=_flops,
    model_axes={"T": "tokens", "H": "hidden", "V": "vocabulary"},
    dtypes=("bfloat16", "float32"),  # in float16, weights of a long vocabulary divided by the tokens lose their digits
    edges={
        # rounded to 16 bits, logits 30 times as large would be off by more than the tolerance
        EdgeInput.WIDE_RANGE: lambda case, hidden, weight, labels: (
            hidden * (30 if case.itemsize == 4 and case.mode == FORWARD else 3),
            weight,
            labels,
        ),
        EdgeInput.ZEROS: lambda case, hidden, weight, labels: (torch.zeros_like(hidden), weight, labels),
        EdgeInput.NAN: lambda case, hidden, weight, labels: (
            hidden.index_fill(0, labels[:1] * 0, math.nan),
            weight,
            labels,
        ),
        EdgeInput.LARGEST_INTEGERS: lambda case, hidden, weight, labels: (
            hidden,
            weight,
            torch.full_like(labels, len(weight) - 1),
        ),
        EdgeInput.TRANSPOSED: lambda case, hidden, weight, labels: (
            *(x.t().contiguous().t() for x in (hidden, weight)),
            labels,
        ),
        EdgeInput.STRIDED_ROWS: lambda case, hidden, weight, labels: (
            *(functional.pad(x, (0, 8))[:, :-8] for x in (hidden, weight)),
            labels,
        ),
        EdgeInput.ONE_ROW: lambda case, hidden, weight, labels: (hidden[:1], weight, labels[:1]),
    },
)


@linear_cross_entropy.provider("torch-native")
def torch_native(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """All logits, in the dtype of the case and in float32."""
    return functional.cross_entropy(functional.linear(hidden, weight).float(), labels)


add_compiled(linear_cross_entropy, torch_native)


def _rows(hidden: torch.Tensor, weight: torch.Tensor, chunks: int | None) -> int:
    """The tokens of a chunk of `torch-chunks`."""
    if chunks is None:
        return max(1, LOGITS // len(weight), math.ceil(len(hidden) / MOST_CHUNKS))
    return max(1, math.ceil(len(hidden) / chunks))


def _needs_full(case: Case) -> str | None:
    if case.mode == BACKWARD:
        return "computes the gradients with the loss: measure it in mode full"
    return None


@linear_cross_entropy.provider("torch-chunks", supports=_needs_full)
def torch_chunks(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, *, chunks: int | None = None
) -> torch.Tensor:
    """The loss of some of the tokens at a time."""
    size = _rows(hidden, weight, chunks)
    with torch.no_grad():
        parts = zip(hidden.split(size), labels.split(size), strict=True)
        sums = [functional.cross_entropy((x @ weight.T).float(), y, reduction="sum") for x, y in parts]
        return torch.stack(sums).sum() / len(labels)


@linear_cross_entropy.full("torch-chunks")
def torch_chunks_full(
    d_loss: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, *, chunks: int | None = None
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The gradients of a chunk as soon as its loss is known. Those of the weight are added up in its dtype."""
    size, sums = _rows(hidden, weight, chunks), []
    d_hidden, d_weight = torch.empty_like(hidden), torch.zeros_like(weight)
    factor = d_loss / len(labels)
    for x, y, d_x in zip(hidden.split(size), labels.split(size), d_hidden.split(size), strict=True):
        logits = (x @ weight.T).float()
        log_sums = logits.logsumexp(-1, keepdim=True)
        sums.append((log_sums - logits.gather(1, y[:, None])).sum())
        d_logits = logits.sub_(log_sums).exp_()
        d_logits.scatter_add_(1, y[:, None], torch.full_like(log_sums, -1))
        d_products = d_logits.mul_(factor).to(hidden.dtype)
        torch.mm(d_products, weight, out=d_x)
        d_weight.addmm_(d_products.T, x)
    return torch.stack(sums).sum() / len(labels), (d_hidden, d_weight)


def _chunks(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunks: int | None
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """The tokens of each chunk, their logits in memory that all chunks share, their labels, and room for their losses."""
    T, V = len(hidden), len(weight)
    size = max(1, math.ceil(T / chunks) if chunks else min(T, CHUNK_BYTES // (V * hidden.element_size())))
    memory = hidden.new_empty(size, V)
    for start in range(0, T, size):
        part = slice(start, min(start + size, T))
        logits = torch.mm(hidden[part], weight.T, out=memory[: part.stop - start])
        yield part, logits, labels[part].contiguous(), new_rows(hidden, len(logits))


@linear_cross_entropy.provider("triton", requires="triton")
def triton(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, *, chunks: int | None = None
) -> torch.Tensor:
    """Products of torch, and the Triton kernel of cross-entropy for the logits of a chunk of the tokens at a time."""
    losses = []
    for _, logits, labels_of_part, losses_of_part in _chunks(hidden, weight, labels, chunks):
        LOSSES((losses_of_part, new_rows(hidden, 2, len(logits))), (logits, labels_of_part), 0.0)
        losses.append(losses_of_part)
    return torch.cat(losses).mean()


@linear_cross_entropy.full("triton")
def triton_full(
    d_loss: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, *, chunks: int | None = None
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The kernel writes the gradients of the logits over the logits."""
    losses, d_hidden, d_weight = [], dense_like(hidden), dense_like(weight)
    d_losses = (d_loss / len(hidden)).expand(len(hidden)).contiguous()
    for part, logits, labels_of_part, losses_of_part in _chunks(hidden, weight, labels, chunks):
        BOTH((losses_of_part,), (logits, d_losses[: len(logits)], logits, labels_of_part), 0.0)
        losses.append(losses_of_part)
        torch.mm(logits, weight, out=d_hidden[part])
        if part.start == 0:
            torch.mm(logits.T, hidden[part], out=d_weight)
        else:
            d_weight.addmm_(logits.T, hidden[part])
    return torch.cat(losses).mean(), (d_hidden, d_weight)


@linear_cross_entropy.backward("triton")
def triton_backward(
    d_loss: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, *, chunks: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the logits again."""
    return triton_full(d_loss, hidden, weight, labels, chunks=chunks)[1]


@linear_cross_entropy.provider("liger", requires="liger_kernel", supports=_needs_full)
def liger(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    return liger_fused_linear_cross_entropy(hidden, weight, labels).float()


@linear_cross_entropy.provider(
    "cut-cross-entropy",
    requires="cut_cross_entropy",
    devices=("cuda",),
    supports=only_dtypes("Cut Cross-Entropy", "bfloat16"),
)
def cut_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Logits stay on the chip. It computes them again in the backward pass, and leaves out gradients that are too small for
    16 bits."""
    from cut_cross_entropy import linear_cross_entropy as fused

    loss: torch.Tensor = fused(hidden, weight, labels)
    return loss.float()


@linear_cross_entropy.provider(
    "quack",
    requires="quack",
    devices=("cuda",),
    supports=any_of(only_dtypes("QuACK", "bfloat16"), _needs_full),
)
def quack(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, *, rows: int = 4096) -> torch.Tensor:
    """In chunks of `rows` tokens, whose gradients of the weight are added up in float32."""
    from quack.linear_cross_entropy import chunked_linear_cross_entropy

    if len(hidden) % 8 or not (hidden.is_contiguous() and weight.is_contiguous()):
        raise Unsupported("QuACK needs a multiple of 8 tokens, and matrices without gaps")
    return chunked_linear_cross_entropy(hidden, weight, labels, chunk_size=rows)
