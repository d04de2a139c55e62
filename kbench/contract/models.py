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
    "experts": "num_local_experts, num_experts or n_routed_experts: the experts of a feed-forward layer, without shared ones",
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


def _model(source: str, *sizes: int | None) -> Model:
    """A model with these sizes, in the order of DIMENSIONS."""
    return Model(source, {name: size for name, size in zip(DIMENSIONS, sizes, strict=False) if size is not None})


# The attention of deepseek-v3 has heads of two lengths for the keys and another one for the values, so it has no head_dim; its
# first three layers have no experts. All layers of the last three models have experts, so they have no intermediate.
MODELS = {
    "llama-3-8b": _model("huggingface.co/meta-llama/Meta-Llama-3-8B", 4096, 14336, 32, 8, 128, 128256),
    "qwen3-8b": _model("huggingface.co/Qwen/Qwen3-8B", 4096, 12288, 32, 8, 128, 151936),
    "deepseek-v3": _model("huggingface.co/deepseek-ai/DeepSeek-V3", 7168, 18432, 128, 128, None, 129280, 256, 8, 2048),
    "gemma-2-9b": _model("huggingface.co/google/gemma-2-9b", 3584, 14336, 16, 8, 256, 256000),
    "gpt-oss-20b": _model("huggingface.co/openai/gpt-oss-20b", 2880, None, 64, 8, 64, 201088, 32, 4, 2880),
    "qwen3-30b-a3b": _model("huggingface.co/Qwen/Qwen3-30B-A3B", 2048, None, 32, 4, 128, 151936, 128, 8, 768),
    "mixtral-8x7b": _model("huggingface.co/mistralai/Mixtral-8x7B-v0.1", 4096, None, 32, 8, 128, 32000, 8, 2, 14336),
}
"""The models by the name that a config gives them."""
