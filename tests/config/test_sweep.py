"""The sweep of a config: scalars, shapes of models, files of shapes; what they become, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import machine_info

from kbench.config import load as configs
from kbench.config.resolve import Sweep
from kbench.contract.tensor import Layout
from kbench.errors import ConfigError
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo


def operator(*axes: str, shapes: tuple[dict[str, str], ...] = (), **fields: Any) -> OperatorInfo:
    matrix = {"x": Layout(axes)}
    tensors = {"inputs": matrix, "outputs": matrix}
    providers = {"torch": ProviderInfo("torch"), "mine": ProviderInfo("mine", {"block": 8})}
    dtypes = ("float32", "bfloat16")
    return OperatorInfo(
        axes, **{"choices": {}, "dtypes": dtypes, **tensors, **fields}, providers=providers, model_axes=shapes
    )


OPERATORS = {
    "norm": operator(
        "M",
        "N",
        choices={"order": ("up", "down"), "mode": ("forward", "backward", "full")},
        scalars={"eps": 1e-6, "causal": False, "window": -1},
        gradients=("x",),
        shapes=({"M": "tokens", "N": "hidden"},),
    ),
    "halves": operator("M", "N", inputs={"x": Layout(("M", "2*N"))}, outputs={"y": Layout(("M", "N/2"))}),
    "gate": operator(
        "M",
        "N",
        shapes=(
            {"M": "tokens", "N": "intermediate"},
            {"M": "tokens*active_experts", "N": "expert_intermediate"},
        ),
    ),
    "scores": operator("tokens", "S", "D", shapes=({"tokens": "tokens", "D": "heads*head_dim"},)),
    "counted": operator("tokens", "N"),
}


def resolve(sweep: str | dict[str, Any], name: str = "norm", profiles: str = "{}", **options: Any) -> Sweep:
    catalog = Catalog(DeviceInfo("cuda", ""), (), OPERATORS, (), machine_info())
    config: Any = {"operator": name, "sweep": sweep, "providers": ["torch"]}
    if isinstance(sweep, str):
        config = Path("x.yaml")
        config.write_text(f"operator: {name}\nsweep: {sweep}\nproviders: [torch]\nprofiles: {profiles}\n")
    return configs.load_config(config, **options).resolve(catalog)


def errors(sweep: str | dict[str, Any], name: str = "norm", **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(sweep, name, **options)
    return str(caught.value).split("\n")


def values(sweep: Sweep, name: str) -> list[Any]:
    return [case.axes[name] for case in sweep.cases]


def sizes(sweep: Sweep) -> list[tuple[Any, ...]]:
    return [tuple(case.axes[name] for name in sweep.info.axes) for case in sweep.cases]


# ---------------------------------------------------------------- scalars


@pytest.mark.parametrize(
    ("written", "name", "expected"),
    [
        ("eps: [1e-6, 1e-5]", "eps", [1e-6, 1e-5]),
        ("eps: [1e-6, 0.000001, 1.0E-6, '1e-6']", "eps", [1e-6]),  # one case
        ("eps: [1, 0, -0.0]", "eps", [1.0, 0.0]),
        ("causal: [true, false]", "causal", [True, False]),
        ("window: [-1, 64]", "window", [-1, 64]),
    ],
)
def test_values(written: str, name: str, expected: list[Any]) -> None:
    found = values(resolve(f"{{M: 1, N: 2, {written}}}"), name)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert "-" not in str(found[-1]) or found[-1]  # no -0.0


def test_set_and_mappings() -> None:
    sweep = resolve("{M: 1, N: 2}", sets=["eps=1e-6,1e-5", "causal=true", "mode=backward"])
    assert (values(sweep, "eps"), values(sweep, "causal")) == ([1e-6, 1e-5], [True, True])
    assert values(sweep, "mode") == ["backward", "backward"]
    assert errors("{M: 1, N: 2}", sets=["causal=on"]) == ['--set causal=on: causal: expected true or false; got "on"']
    mapping = {"M": 1, "N": 2, "eps": [np.float64(1e-6), "1e-5", 1], "causal": np.True_, "window": np.int64(3)}
    sweep = resolve(mapping)
    assert values(sweep, "eps") == [1e-6, 1e-5, 1.0] and values(sweep, "causal")[0] is True
    assert errors({"M": 1, "N": 2, "eps": ["x"]}) == ['config["sweep"]["eps"][0]: eps: expected a number; got "x"']


# ---------------------------------------------------------------- shapes of models


def test_a_model_has_only_the_shapes_whose_dimensions_it_has() -> None:
    assert sizes(resolve("{model: llama-3-8b, tokens: 16}", "gate")) == [(16, 14336)]
    assert sizes(resolve("{model: deepseek-v3, tokens: 16}", "gate")) == [(16, 18432), (128, 2048)]
    assert sizes(resolve("{model: gpt-oss-20b, tokens: 16}", "gate")) == [(64, 2880)]


def test_an_axis_called_tokens_has_the_values_of_tokens() -> None:
    found = resolve("{model: gemma-2-9b, tokens: [1, 2], S: [8, 9]}", "scores")
    assert sizes(found) == [(1, 8, 4096), (1, 9, 4096), (2, 8, 4096), (2, 9, 4096)]
    assert list(found.models.values()) == ["gemma-2-9b"] * 4
    assert sizes(resolve("{tokens: [1, 2], N: 8}", "counted")) == [(1, 8), (2, 8)]


def test_a_profile_with_models_replaces_the_sizes_of_the_config_and_a_set_those_of_the_profile() -> None:
    profiles = "{models: {sweep: {model: [llama-3-8b, gemma-2-9b], tokens: 4}}}"
    base = "{M: [1, 2], N: [3, 4], dtype: bfloat16}"
    found = resolve(base, profiles=profiles, profile="models")
    assert sizes(found) == [(4, 4096), (4, 3584)]
    assert {case.dtype for case in found.cases} == {"bfloat16"}
    of_list = resolve(f"[{base}, {{M: 7, N: 8, dtype: float32}}]", profiles=profiles, profile="models")
    assert [(case.M, case.N, case.dtype) for case in of_list.cases] == [
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
        (
            "{model: llama-3-8b}",
            "norm",
            "x.yaml:2:16: norm takes the sizes of M from tokens; give tokens, or sizes of M",
        ),
        (
            "{model: deepseek-v3, tokens: 4, S: 8}",
            "scores",
            "x.yaml:2:16: scores takes the sizes of D from heads*head_dim, but deepseek-v3 has no head_dim; leave the model "
            "out, or give sizes of D",
        ),
        (
            "{model: llama-3-8b, tokens: 4}",
            "halves",
            "x.yaml:2:9: halves takes no sizes from a model; give sizes of M and N instead",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_model_is_told_with_its_place(sweep: str, name: str, told: str) -> None:
    assert errors(sweep, name) == [told]


# ---------------------------------------------------------------- files of shapes


SWEEP = "{M: [1, 2], N: 3, dtype: bfloat16, eps: 1e-5}"


def of_file(csv: str | bytes, sweep: str = SWEEP, **options: Any) -> Sweep:
    Path("trace.csv").write_bytes(csv.encode() if isinstance(csv, str) else csv)
    return resolve(sweep, shapes=Path("trace.csv"), **options)


def weights(sweep: Sweep) -> dict[tuple[Any, ...], float | None]:
    return {(case.M, case.N, case.eps, case.dtype): sweep.weights.get(case) for case in sweep.cases}


def test_without_weights_each_line_counts_once() -> None:
    assert list(weights(of_file("M,N\n1,2\n4,5\n1,2\n")).values()) == [2.0, 1.0]
    assert list(weights(of_file("M,N\n1,2\n4,5\n")).values()) == [None, None], "nothing is to be weighted"
    assert list(weights(of_file("M,N,weight\n1,2,1\n4,5,1\n")).values()) == [1.0, 1.0], "the user asked for it"


@pytest.mark.parametrize(
    "csv",
    [
        '"M","N","weight"\r\n"1", "2" ,"3"\r\n\r\n',
        "\ufeffM, N, weight\n1, 2, 3",
        "M,\tN,\tweight\n1,\t2,\t3\t\n",
    ],
)
def test_spreadsheets_write_csv_in_many_ways(csv: str) -> None:
    assert weights(of_file(csv)) == {(1, 2, 1e-5, "bfloat16"): 3.0}


HEAD = "trace.csv: expected the names of the columns, for example M,N,weight, and a line for each shape"


@pytest.mark.parametrize(
    ("csv", "told"),
    [
        ("", HEAD),
        ("M,N,weight\n1,2,often\n", 'trace.csv:2:5: weight: expected a positive number; got "often"'),
        ("M,N\n1,2\n10,x\n1,y\n", 'trace.csv:3:4: N: expected an integer; got "x"'),
        ("M,N,M\n1,2,3\n", "trace.csv:1:1: two columns have the same name"),
        ("model,tokens\nquen3-8b,1\n", 'trace.csv:2:1: unknown model "quen3-8b"; did you mean "qwen3-8b"?'),
        (b"M,N\n1,\xff\n", "trace.csv: is no CSV in UTF-8: "),
    ],
)
def test_a_malformed_file_gives_one_error_with_its_place(csv: str | bytes, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_file(csv)
    assert str(caught.value).startswith(told) and "\n" not in str(caught.value)
