"""Attention of other libraries. Each provider is available if its package is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.kernels.libraries import only_dtypes
from kbench.operators.attention.operator import attention

if TYPE_CHECKING:
    from torch import Tensor


def flash_attention(module: str) -> Callable[..., Tensor]:
    """The function of one generation of FlashAttention. All take the sequence before the heads, also as strides of a view."""

    def call(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
        function = importlib.import_module(module).flash_attn_func
        returned = function(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        output: Tensor = returned[0] if isinstance(returned, tuple) else returned  # some return the sums, too
        return output.transpose(1, 2)

    return call


for name, label, module in (
    ("flash-attn", "FlashAttention-2", "flash_attn.flash_attn_interface"),  # flash_attn alone may hold flash_attn.cute
    ("flash-attn-3", "FlashAttention-3", "flash_attn_interface"),
    ("flash-attn-cute", "FlashAttention (CuTe)", "flash_attn.cute"),
):
    attention.provider(
        name, label=label, requires=module, devices=("cuda",), supports=only_dtypes(label, "float16", "bfloat16")
    )(flash_attention(module))
