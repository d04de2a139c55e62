"""The sweep of a config: scalars, shapes of models, files of shapes; what they become, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sample_configs
from sample_configs import errors, minimal

from kbench.config.plan import Plan


def resolve(sweep: str, name: str = "norm", profiles: str = "{}", **options: Any) -> Plan:
    return sample_configs.resolve(minimal(sweep, "[torch]", f"profiles: {profiles}\n", name), **options)


def values(sweep: Plan, name: str) -> list[Any]:
    return [case.axes[name] for case in sweep.cases]


def sizes(sweep: Plan) -> list[tuple[Any, ...]]:
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


# ---------------------------------------------------------------- shapes of models


def test_a_model_has_only_the_shapes_whose_dimensions_it_has() -> None:
    assert sizes(resolve("{model: llama-3-8b, tokens: 16}", "gate")) == [(16, 14336)]
    assert sizes(resolve("{model: deepseek-v3, tokens: 16}", "gate")) == [(16, 18432), (128, 2048)]
    assert sizes(resolve("{model: gpt-oss-20b, tokens: 16}", "gate")) == [(64, 2880)]


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
            '2:29: unknown model "quen3-8b"; did you mean "qwen3-8b"?',
        ),
        ("{model: llama-3-8b}", "norm", "2:16: norm takes the sizes of M from tokens; give tokens, or sizes of M"),
        (
            "{model: deepseek-v3, tokens: 4, S: 8}",
            "scores",
            "2:16: scores takes the sizes of D from heads*head_dim, but",
        ),
        ("{model: llama-3-8b, tokens: 4}", "halves", "2:9: halves takes no sizes from a model; give sizes of M and N"),
    ],
)
def test_a_mistake_in_a_model_is_told_with_its_place(sweep: str, name: str, told: str) -> None:
    [error] = errors(minimal(sweep, "[torch]", operator=name))
    assert error.startswith(f"x.yaml:{told}")


# ---------------------------------------------------------------- files of shapes


SWEEP = "{M: [1, 2], N: 3, dtype: bfloat16, eps: 1e-5}"


def of_file(csv: str | bytes, sweep: str = SWEEP, **options: Any) -> Plan:
    Path("trace.csv").write_bytes(csv.encode() if isinstance(csv, str) else csv)
    return resolve(sweep, shapes=Path("trace.csv"), **options)


def weights(sweep: Plan) -> dict[tuple[Any, ...], float | None]:
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
