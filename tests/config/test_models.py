"""Shapes of models in a config: the cases that they become, the names that the cases get, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_executor import machine_info

from kbench.config import load as configs
from kbench.config.resolve import Sweep
from kbench.contract.models import DIMENSIONS, MODELS
from kbench.contract.tensor import Layout
from kbench.errors import ConfigError
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo

MATRIX = {"x": Layout(("M", "N"))}
PROVIDERS = {"torch": ProviderInfo("torch")}


def operator(axes: tuple[str, ...], *shapes: dict[str, str]) -> OperatorInfo:
    layout = {"x": Layout(axes)}
    return OperatorInfo(
        axes, {}, ("float32", "bfloat16"), providers=PROVIDERS, inputs=layout, outputs=layout, model_axes=shapes
    )


OPERATORS = {
    "norm": operator(("M", "N"), {"M": "tokens", "N": "hidden"}),
    "gate": operator(
        ("M", "N"),
        {"M": "tokens", "N": "intermediate"},
        {"M": "tokens*active_experts", "N": "expert_intermediate"},
    ),
    "scores": operator(("tokens", "S", "D"), {"tokens": "tokens", "D": "heads*head_dim"}),
    "plain": operator(("M", "N")),
    "counted": operator(("tokens", "N")),
}
BASE = "operator: {}\nsweep: {}\nproviders: [torch]\nprofiles: {}\n"


def resolve(sweep: str, name: str = "norm", profiles: str = "{}", **options: Any) -> Sweep:
    catalog = Catalog(DeviceInfo("cuda", ""), (), OPERATORS, (), machine_info())
    Path("x.yaml").write_text(BASE.format(name, sweep, profiles))
    return configs.load_config("x.yaml", **options).resolve(catalog)


def sizes(sweep: Sweep) -> list[tuple[Any, ...]]:
    return [tuple(case.axes.values()) for case in sweep.cases]


def models(sweep: Sweep) -> list[str]:
    return [sweep.models.get(case, "") for case in sweep.cases]


def error(sweep: str, name: str = "norm", **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(sweep, name, **options)
    return str(caught.value)


def test_a_model_has_only_the_shapes_whose_dimensions_it_has() -> None:
    assert sizes(resolve("{model: llama-3-8b, tokens: 16}", "gate")) == [(16, 14336)]
    assert sizes(resolve("{model: deepseek-v3, tokens: 16}", "gate")) == [(16, 18432), (128, 2048)]
    assert sizes(resolve("{model: gpt-oss-20b, tokens: 16}", "gate")) == [(64, 2880)]


def test_an_axis_with_sizes_of_its_own_keeps_them_and_the_model_is_not_named_for_another_shape() -> None:
    own_rows = resolve("{model: llama-3-8b, M: [3, 5]}")
    assert sizes(own_rows) == [(3, 4096), (5, 4096)]
    assert models(own_rows) == ["llama-3-8b"] * 2
    own_columns = resolve("{model: llama-3-8b, tokens: 2, N: 1000}")
    assert sizes(own_columns) == [(2, 1000)]
    assert models(own_columns) == [""]


def test_an_axis_called_tokens_has_the_values_of_tokens() -> None:
    found = resolve("{model: gemma-2-9b, tokens: [1, 2], S: [8, 9]}", "scores")
    assert sizes(found) == [(1, 8, 4096), (1, 9, 4096), (2, 8, 4096), (2, 9, 4096)]
    assert models(found) == ["gemma-2-9b"] * 4
    assert sizes(resolve("{tokens: [1, 2], N: 8}", "counted")) == [(1, 8), (2, 8)]


def test_a_profile_with_models_replaces_the_sizes_of_the_config_and_a_set_those_of_the_profile() -> None:
    profiles = "{models: {sweep: {model: [llama-3-8b, gemma-2-9b], tokens: 4}}}"
    base = "{M: [1, 2], N: [3, 4], dtype: bfloat16}"
    found = resolve(base, profiles=profiles, profile="models")
    assert sizes(found) == [(4, 4096), (4, 3584)]
    assert {case.dtype for case in found.cases} == {"bfloat16"}
    of_list = resolve(f"[{base}, {{M: 7, N: 8, dtype: float32}}]", profiles=profiles, profile="models")
    assert [(*case.axes.values(), case.dtype) for case in of_list.cases] == [
        (4, 4096, "bfloat16"), (4, 3584, "bfloat16"), (4, 4096, "float32"), (4, 3584, "float32"),
    ]  # fmt: skip
    assert sizes(resolve(base, sets=["model=qwen3-8b"])) == [(1, 4096), (2, 4096)]
    assert sizes(resolve(base, sets=["tokens=7"])) == [(7, 3), (7, 4)]
    assert sizes(resolve(base, profiles=profiles, profile="models", sets=["model=deepseek-v3"])) == [(4, 7168)]
    assert sizes(resolve(base, profiles=profiles, profile="models", sets=["N=1000"])) == [(4, 1000)]


@pytest.mark.parametrize(
    ("sweep", "name", "told"),
    [
        (
            "{model: [llama-3-8b, quen3-8b], tokens: 4}",
            "norm",
            'x.yaml:2:29: unknown model "quen3-8b"; did you mean "qwen3-8b"?',
        ),
        ("{model: 7, tokens: 4}", "norm", "x.yaml:2:16: model: expected a word; got 7"),
        (
            "{model: llama-3-8b}",
            "norm",
            "x.yaml:2:16: norm takes the sizes of M from tokens; give tokens, or sizes of M",
        ),
        (
            "{tokens: 4}",
            "norm",
            "x.yaml:2:8: norm takes the sizes of N from hidden; give a model, or sizes of N",
        ),
        (
            "{model: deepseek-v3, tokens: 4, S: 8}",
            "scores",
            "x.yaml:2:16: scores takes the sizes of D from heads*head_dim, but deepseek-v3 has no head_dim; leave the model "
            "out, or give sizes of D",
        ),
        (
            "{model: llama-3-8b, tokens: 4}",
            "scores",
            "x.yaml:2:8: sweep: no values for S; give sizes, for example S: [1024, 4096]",
        ),
        ("{model: llama-3-8b, tokens: -1}", "norm", "x.yaml:2:36: tokens: expected at least 0; got -1"),
        (
            "{model: llama-3-8b, tokens: 4}",
            "plain",
            "x.yaml:2:9: plain takes no sizes from a model; give sizes of M and N instead",
        ),
        ("{modle: llama-3-8b, tokens: 4}", "norm", 'x.yaml:2:9: unknown axis "modle"; did you mean "model"?'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(sweep: str, name: str, told: str) -> None:
    assert told in error(sweep, name).split("\n")


def test_the_table_of_models_has_known_dimensions_and_a_source_for_each_model() -> None:
    for name, model in MODELS.items():
        assert set(model.dimensions) <= set(DIMENSIONS), name
        assert all(isinstance(size, int) and size > 0 for size in model.dimensions.values()), name
        assert model.source.startswith("huggingface.co/"), name
        assert {"experts", "active_experts", "expert_intermediate"} & set(model.dimensions) in (
            set(),
            {"experts", "active_experts", "expert_intermediate"},
        ), name
