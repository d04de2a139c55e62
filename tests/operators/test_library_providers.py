"""Which cases the providers of other libraries decline, and in which words. No library has to be installed for that."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.contract.registry import operator

FORWARD_ONLY, WEIGHTS = "has no backward pass", "takes weights in the dtype of x only"
# fmt: off
DECLINED: list[tuple[str, str, str, dict[str, Any], str | None]] = [
    ("rmsnorm", "liger", "bfloat16", {"N": 65536, "mode": "full", "weight_dtype": "float32"}, None),
    ("rmsnorm", "liger", "bfloat16", {"N": 65537}, "N > 65536: Liger refuses longer rows"),
    ("rmsnorm", "liger-in-place", "float16", {"mode": "backward"}, None),
    ("rmsnorm", "liger-in-place", "float16", {}, "its forward pass is the same as that of `liger`"),
    ("rmsnorm", "quack", "bfloat16", {"N": 34, "mode": "backward", "weight_dtype": "float32"}, None),
    ("rmsnorm", "quack", "bfloat16", {"N": 33, "weight_dtype": "float32"}, "N is not a multiple of 2, which QuACK needs"),
    ("cross_entropy", "quack-in-place", "bfloat16", {"V": 50257, "mode": "full"}, "V is not a multiple of 2"),
    ("rmsnorm", "flashinfer", "float32", {}, "FlashInfer takes float16 and bfloat16 only"),
    ("rmsnorm", "vllm", "float16", {"mode": "full"}, f"vLLM {FORWARD_ONLY}"),
    ("layernorm", "quack", "bfloat16", {"mode": "full"}, "QuACK takes weights in float32 only; measure it with weight_d"),
    ("rmsnorm", "vllm", "float16", {"weight_dtype": "float32"}, f"vLLM {WEIGHTS}"),
    ("swiglu", "liger", "bfloat16", {"mode": "backward"}, "Liger writes the gradients over the inputs; measure `liger-in-"),
]
# fmt: on


@pytest.mark.parametrize("name, provider, dtype, values, says", DECLINED)
def test_a_reason_to_decline(name: str, provider: str, dtype: str, values: dict[str, Any], says: str | None) -> None:
    definition = operator(name)
    case = definition.case(dtype, **({"M": 4} | ({} if "V" in values else {"N": 64}) | values))
    reason = definition.providers[provider].declines(case)
    assert reason is None if says is None else (reason or "").startswith(says)
