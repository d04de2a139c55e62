"""Attention of one new token to a long cache, as in generation: each query head reads all keys and values of its head once."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels.libraries import only_dtypes
from kbench.kernels.torch_fused import add_compiled
from kbench.operators.attention.operator import HEADS
from kbench.operators.attention.providers_libraries import attended
from kbench.results.case import Case
from kbench.results.vocabulary import EdgeInput


def _reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The query heads that share a head of keys are the rows of its products."""
    rows = q.unflatten(1, (k.shape[1], -1))
    scores = rows @ k.mT * k.shape[-1] ** -0.5
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    output: torch.Tensor = weights @ v / weights.sum(-1, keepdim=True)
    return output.flatten(1, 2)


attention_decode = Operator(
    "attention_decode",
    axes=("B", "heads", "kv_heads", "S", "D"),
    inputs={
        "q": Tensor("B", HEADS, "D"),
        "k": Tensor("B", "kv_heads", "S", "D"),
        "v": Tensor("B", "kv_heads", "S", "D"),
    },
    outputs={"o": Tensor("B", HEADS, "D")},
    reference=_reference,
    rows="B",
    flops=lambda case: 4 * case.B * case.heads * case.S * case.D,
    model_axes={"heads": "heads", "kv_heads": "kv_heads", "S": "tokens", "D": "head_dim"},
    output_ulps=3,  # as for attention
    edges={
        EdgeInput.WIDE_RANGE: lambda case, q, k, v: (q * 30, k, v),
        EdgeInput.LARGE_OFFSET: lambda case, q, k, v: (q, k + 100, v),
        EdgeInput.ZEROS: lambda case, q, k, v: (q, torch.zeros_like(k), v),
        # a cache with the sequence before the heads
        EdgeInput.STRIDED_ROWS: lambda case, q, *cache: (
            q,
            *(x.transpose(1, 2).contiguous().transpose(1, 2) for x in cache),
        ),
        EdgeInput.ONE_ROW: lambda case, q, k, v: (q, k[:, :, :1], v[:, :, :1]),
        EdgeInput.NO_ROWS: lambda case, q, k, v: (q[:0], k[:0], v[:0]),
    },
)


@attention_decode.provider("torch-native")
def torch_native(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, backend: str = "auto") -> torch.Tensor:
    return attended(q[:, :, None], k, v, False, backend)[:, :, 0]


@attention_decode.provider("torch-rows")
def torch_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, backend: str = "auto") -> torch.Tensor:
    """The query heads that share keys as a sequence: so each key is read once, whether or not the backend knows groups."""
    return attended(q.unflatten(1, (k.shape[1], -1)), k, v, False, backend).flatten(1, 2)


@attention_decode.provider("torch-eager")
def torch_eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    rows = q.unflatten(1, (k.shape[1], -1))
    weights = torch.softmax((rows @ k.mT).float() * k.shape[-1] ** -0.5, -1)
    return (weights.to(v.dtype) @ v).flatten(1, 2)


add_compiled(attention_decode, torch_eager)


@attention_decode.provider(
    "flash-attn",
    requires="flash_attn.flash_attn_interface",
    devices=("cuda",),
    supports=only_dtypes("FlashAttention-2", "float16", "bfloat16"),
)
def flash_attn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Its function for a cache, which divides the keys of a head among programs."""
    from flash_attn.flash_attn_interface import flash_attn_with_kvcache

    return flash_attn_with_kvcache(q[:, None], k.transpose(1, 2), v.transpose(1, 2))[:, 0]


@attention_decode.provider(
    "flashinfer",
    requires="flashinfer",
    devices=("cuda",),
    factory=True,
    supports=only_dtypes("FlashInfer", "float16", "bfloat16"),
)
def flashinfer(case: Case) -> Callable[..., torch.Tensor]:
    """Paged, with the cache of a sequence as one page. The plan is part of the building: a model makes it once per token, for
    all of its layers."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    dtype, pages = getattr(torch, case.dtype), torch.arange(case.B + 1, dtype=torch.int32, device="cuda")
    workspace = torch.empty(2**27, dtype=torch.uint8, device="cuda")
    wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=case.heads > case.kv_heads)
    last = torch.full((case.B,), case.S, dtype=torch.int32, device="cuda")
    sizes = (case.heads, case.kv_heads, case.D, case.S)
    wrapper.plan(pages, pages[:-1], last, *sizes, q_data_type=dtype, kv_data_type=dtype)
    return lambda q, k, v: wrapper.run(q, (k, v))
