"""Attention of torch (its backends of scaled_dot_product_attention, and flex_attention, compiled) and of FlashAttention."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from kbench.contract.provider import Unsupported
from kbench.kernels import torch_fused
from kbench.kernels.libraries import only_dtypes
from kbench.operators.attention.operator import attention
from kbench.results.case import Case

BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
"""The backends of torch by the values of the parameter `backend`. `auto` leaves the choice to torch."""


@attention.provider("torch-native")
def torch_native(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, backend: str = "auto"
) -> torch.Tensor:
    return attended(q, k, v, causal, backend)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, backend: str) -> torch.Tensor:
    """torch's function with a backend. Raises Unsupported if that cannot compute it."""
    grouped = q.shape[1] != k.shape[1]
    if backend == "auto":
        return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    if backend not in BACKENDS:
        raise Unsupported(f"backend={backend}; choose from auto, {', '.join(BACKENDS)}")
    with sdpa_kernel(BACKENDS[backend]):
        try:
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
        except RuntimeError as error:
            if "No available kernel" not in str(error) and "No viable backend" not in str(error):
                raise
            raise Unsupported(f"torch has no {backend} kernel for this device, these sizes or this dtype") from None


def _flex_declines(case: Case) -> str | None:
    small = case.D < 16 or case.D & (case.D - 1)
    return f"D={case.D}: flex_attention needs a power of two from 16 on" if small else None


def _flex(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, grouped: bool) -> torch.Tensor:
    from torch.nn.attention.flex_attention import flex_attention  # slow to import

    return flex_attention(q, k, v, block_mask=mask, enable_gqa=grouped)


@attention.provider("flex", factory=True, devices=("cuda",), supports=_flex_declines)
def flex(case: Case, *, causal: bool) -> Callable[..., torch.Tensor]:
    """The mask is a block mask, made once: blocks above the diagonal are not computed."""
    from torch.nn.attention.flex_attention import create_block_mask

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, case.S, case.S) if causal else None
    return partial(torch_fused.compiled(_flex), mask=mask, grouped=case.heads != case.kv_heads)


def flash_attention(module: str) -> Callable[..., torch.Tensor]:
    """The function of one generation of FlashAttention. All take the sequence before the heads, also as strides of a view."""

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
        function = importlib.import_module(module).flash_attn_func
        returned = function(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        output: torch.Tensor = returned[0] if isinstance(returned, tuple) else returned  # some return the sums, too
        return output.transpose(1, 2)

    return call


for name, library, module in (
    ("flash-attn", "FlashAttention-2", "flash_attn.flash_attn_interface"),  # flash_attn alone may hold flash_attn.cute
    ("flash-attn-3", "FlashAttention-3", "flash_attn_interface"),
    ("flash-attn-cute", "FlashAttention (CuTe)", "flash_attn.cute"),
):
    attention.provider(name, requires=module, devices=("cuda",), supports=only_dtypes(library, "float16", "bfloat16"))(
        flash_attention(module)
    )
