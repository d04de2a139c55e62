"""Grouped matrix products in torch: its own grouped product, and a product for each expert."""

from __future__ import annotations

import torch

from kbench.contract.provider import Unsupported
from kbench.operators.grouped_matmul.operator import by_expert, grouped_matmul


@grouped_matmul.provider("torch-native", label="torch grouped_mm")
def torch_native(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """CUTLASS's grouped kernel on a GPU, in bfloat16."""
    unit = 16 // x.element_size()
    if any(y.data_ptr() % 16 or any(n % unit for n in sorted(y.stride())[1:]) for y in (x, w)):
        raise Unsupported("torch's grouped product needs rows that begin at multiples of 16 bytes")
    y = torch.nn.functional.grouped_mm(x, w, offs=ends)
    if y.requires_grad:
        y.register_hook(torch.Tensor.contiguous)  # its backward pass takes no other gradients
    return y


@grouped_matmul.provider("torch-loop", label="torch.matmul per expert")
def torch_loop(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """It waits for the device, to learn how many tokens each expert has."""
    return by_expert(x, w, ends)
