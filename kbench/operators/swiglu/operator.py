"""SwiGLU of two (M, N) matrices, as in the feed-forward layers of language models: `y = silu(gate) * up`, elementwise.

The two matrices are separate inputs, as in liger-kernel and in the models themselves. Kernels of inference engines take one
matrix of 2N columns. That is the same traffic.
"""

from __future__ import annotations

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor


def _reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gate * gate.sigmoid() * up


swiglu = Operator(
    "swiglu",
    axes=("M", "N"),
    inputs={"gate": Tensor("M", "N"), "up": Tensor("M", "N")},
    outputs={"y": Tensor("M", "N")},
    reference=_reference,
    gradients=("gate", "up"),
    model_axes=[
        {"M": "tokens", "N": "intermediate"},
        {"M": "tokens*active_experts", "N": "expert_intermediate"},  # all experts in one call
    ],
    rows="M",
    # the argument of exp reaches 87 in magnitude before the result leaves float32's normal range. Its multiplication with
    # log2 e rounds once, which costs the result up to one unit per unit of the argument. Eight units are for the other steps
    tolerance=88 + 8,
    scale=lambda case, y, gate, up: y,  # a product: nothing cancels in the forward pass
)
