"""Attention of sequences that lie behind each other without padding. `ends` has where each begins and ends: 0, the length of
the first, that of the first two, and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor as Values

from kbench.contract.operator import Operator
from kbench.contract.tensor import Draw, Tensor
from kbench.kernels.libraries import only_dtypes
from kbench.operators.attention.operator import HEADS, reference
from kbench.operators.attention.providers_libraries import attended
from kbench.results.case import BACKWARD, FORWARD, FULL, Case
from kbench.results.vocabulary import EdgeInput


def lengths_of(case: Case) -> list[int]:
    """The lengths, the longest first. Uniform: evenly spaced from 0 to twice the mean. Zipf: the second is half as long as the
    first, the third a third."""
    B, T = int(case.B), int(case.T)
    weights = [{"equal": 1.0, "uniform": B - n - 0.5, "zipf": 1 / (n + 1)}[str(case.lengths)] for n in range(B)]
    bounds = [round(T * sum(weights[:n]) / sum(weights)) for n in range(B + 1)]
    return sorted((end - begin for begin, end in pairwise(bounds)), reverse=True)


def _ends(case: Case, draw: Draw) -> Values:
    """The lengths in a random order: so every draw has other sequences, and is the same work."""
    order = draw.uniform(0, 1, int(case.B), dtype="float64").argsort()
    lengths = torch.tensor(lengths_of(case), device=order.device)[order]
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)


def _sequences(ends: Values, *tensors: Values) -> list[tuple[Values, ...]]:
    """The tensors of each sequence, as attention takes them: (1, heads, length, D)."""
    parts = [x.transpose(0, 1)[None].split(ends.diff().tolist(), 2) for x in tensors]
    return list(zip(*parts, strict=True))


def _reference(q: Values, k: Values, v: Values, ends: Values, *, causal: bool) -> Values:
    outputs = [reference(*parts, causal=causal) for parts in _sequences(ends, q, k, v)]
    return torch.cat(outputs, 2)[0].transpose(0, 1)


def _flops(case: Case, inputs: Mapping[str, Values]) -> int:
    """As for attention, over the pairs of each sequence."""
    lengths = inputs["ends"].long().diff()
    pairs = int((lengths * (lengths + 1) // 2 if case.causal else lengths * lengths).sum())
    return {FORWARD: 2, BACKWARD: 5, FULL: 7}[case.mode] * 2 * int(case.heads) * int(case.D) * pairs


attention_varlen = Operator(
    "attention_varlen",
    axes=("B", "heads", "kv_heads", "T", "D"),
    inputs={
        "q": Tensor("T", HEADS, "D"),
        "k": Tensor("T", "kv_heads", "D", ulps=5),  # as for attention
        "v": Tensor("T", "kv_heads", "D", ulps=5),
        "ends": Tensor("B+1", dtype="int32", fill=_ends),
    },
    outputs={"o": Tensor("T", HEADS, "D")},
    scalars={"causal": True},
    choices={"lengths": ("equal", "uniform", "zipf")},
    reference=_reference,
    gradients=("q", "k", "v"),
    flops=_flops,
    model_axes={"heads": "heads", "kv_heads": "kv_heads", "T": "tokens", "D": "head_dim"},
    output_ulps=3,
    edges={
        EdgeInput.WIDE_RANGE: lambda case, q, k, v, ends: (q * (30 if case.mode == FORWARD else 3), k, v, ends),
        EdgeInput.LARGE_OFFSET: lambda case, q, k, v, ends: (q, k + (100 if case.mode == FORWARD else 30), v, ends),
        # queries, keys and values of a token beside each other
        EdgeInput.STRIDED_ROWS: lambda case, q, k, v, ends: (
            *torch.cat([q, k, v], 1).split([q.shape[1], k.shape[1], v.shape[1]], 1),
            ends,
        ),
        EdgeInput.NO_ROWS: lambda case, q, k, v, ends: (q[:0], k[:0], v[:0], ends * 0),
    },
)


@attention_varlen.provider("torch-native")
def torch_native(q: Values, k: Values, v: Values, ends: Values, *, causal: bool, backend: str = "auto") -> Values:
    """It waits for the device, to learn the lengths."""
    outputs = [attended(one_q, one_k, one_v, causal, backend) for one_q, one_k, one_v in _sequences(ends, q, k, v)]
    return torch.cat(outputs, 2)[0].transpose(0, 1)


@attention_varlen.provider(
    "torch-varlen",
    factory=True,
    devices=("cuda",),
    supports=only_dtypes("varlen_attn", "float16", "bfloat16"),
)
def torch_varlen(case: Case, *, causal: bool) -> Callable[..., Values]:
    """FlashAttention as torch comes with it. The longest length is known on the host, as it is in a model."""
    from torch.nn.attention.varlen import varlen_attn

    longest = lengths_of(case)[0]
    options: dict[str, Any] = {"window_size": (-1, 0 if causal else -1)}
    if "enable_gqa" in signature(varlen_attn).parameters:  # before torch 2.12, heads may share keys unasked
        options["enable_gqa"] = case.heads != case.kv_heads

    def call(q: Values, k: Values, v: Values, ends: Values) -> Values:
        return varlen_attn(q, k, v, ends, ends, longest, longest, **options)  # type: ignore[return-value]

    return call


def flash_attention(module: str) -> Callable[..., Callable[..., Values]]:
    """The function of one generation of FlashAttention."""

    def build(case: Case, *, causal: bool) -> Callable[..., Values]:
        function, longest = import_module(module).flash_attn_varlen_func, lengths_of(case)[0]
        lengths = {"max_seqlen_q": longest, "max_seqlen_k": longest}

        def call(q: Values, k: Values, v: Values, ends: Values) -> Values:
            returned = function(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, **lengths, causal=causal)
            return returned[0] if isinstance(returned, tuple) else returned  # some return the sums, too

        return call

    return build


for name, library, module in (
    ("flash-attn", "FlashAttention-2", "flash_attn.flash_attn_interface"),
    ("flash-attn-cute", "FlashAttention (CuTe)", "flash_attn.cute"),
):
    attention_varlen.provider(
        name,
        requires=module,
        factory=True,
        devices=("cuda",),
        supports=only_dtypes(library, "float16", "bfloat16"),
    )(flash_attention(module))
