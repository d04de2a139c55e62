"""The dimensions of a few public language models, so that a config can name a model instead of sizes.

Each number stands in the model's public config.json on Hugging Face, under the key that DIMENSIONS names. A dimension that a
model does not have, or that its config.json does not state, is left out. To add a model, add a line to MODELS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DIMENSIONS = {
    "hidden": "hidden_size: the length of a token's vector between the layers",
    "intermediate": "intermediate_size: the width of the feed-forward layers without experts",
    "heads": "num_attention_heads: the heads of the queries",
    "kv_heads": "num_key_value_heads: the heads of the keys and values",
    "head_dim": "head_dim: the length of a head; if the file does not state it, hidden_size / num_attention_heads",
    "vocabulary": "vocab_size: the number of tokens that exist",
    "experts": "num_local_experts or n_routed_experts: the experts of a feed-forward layer, without shared ones",
    "active_experts": "num_experts_per_tok: how many of these experts a token passes through",
    "expert_intermediate": "moe_intermediate_size, or intermediate_size if all layers have experts: the width of an expert",
}
"""The dimensions of models, and the key of config.json that holds each."""

TOKENS = "tokens"
"""The number of tokens in a call. It is no dimension of a model: the sweep gives it."""


@dataclass(frozen=True)
class Model:
    """The dimensions of a model by name, and where its config.json is."""

    source: str
    dimensions: Mapping[str, int]


MODELS = {
    "llama-3-8b": Model(
        "huggingface.co/meta-llama/Meta-Llama-3-8B",
        {
            "hidden": 4096, "intermediate": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128, "vocabulary": 128256,
        },
    ),
    "qwen3-8b": Model(
        "huggingface.co/Qwen/Qwen3-8B",
        {
            "hidden": 4096, "intermediate": 12288, "heads": 32, "kv_heads": 8, "head_dim": 128, "vocabulary": 151936,
        },
    ),
    # its attention has heads of two lengths for the keys and another one for the values, so it has no head_dim; the first
    # three layers have no experts
    "deepseek-v3": Model(
        "huggingface.co/deepseek-ai/DeepSeek-V3",
        {
            "hidden": 7168, "intermediate": 18432, "heads": 128, "kv_heads": 128, "vocabulary": 129280,
            "experts": 256, "active_experts": 8, "expert_intermediate": 2048,
        },
    ),
    "gemma-2-9b": Model(
        "huggingface.co/google/gemma-2-9b",
        {
            "hidden": 3584, "intermediate": 14336, "heads": 16, "kv_heads": 8, "head_dim": 256, "vocabulary": 256000,
        },
    ),
    # all its layers have experts, so it has no intermediate
    "gpt-oss-20b": Model(
        "huggingface.co/openai/gpt-oss-20b",
        {
            "hidden": 2880, "heads": 64, "kv_heads": 8, "head_dim": 64, "vocabulary": 201088,
            "experts": 32, "active_experts": 4, "expert_intermediate": 2880,
        },
    ),
}  # fmt: skip
"""The models by the name that a config gives them."""
