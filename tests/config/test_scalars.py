"""Scalars, modes and derived sizes in a config: what they become, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_executor import machine_info

from kbench.config import load as configs
from kbench.config.resolve import Sweep
from kbench.contract.tensor import Layout
from kbench.errors import ConfigError
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo

NORM = OperatorInfo(
    axes=("M", "N"),
    choices={"order": ("up", "down"), "mode": ("forward", "backward", "full")},
    dtypes=("float32", "bfloat16"),
    providers={"torch": ProviderInfo("torch"), "mine": ProviderInfo("mine", {"block": 8})},
    scalars={"eps": 1e-6, "causal": False, "window": -1},
    inputs={"x": Layout(("M", "N")), "w": Layout(("N",))},
    outputs={"y": Layout(("M", "N"))},
    gradients=("x",),
)
HALVES = OperatorInfo(
    axes=("M", "N"),
    choices={},
    dtypes=("float32",),
    providers={"torch": ProviderInfo("torch")},
    inputs={"x": Layout(("M", "2*N"))},
    outputs={"y": Layout(("M", "N/2")), "z": Layout(("N/2", "(M+N)/3"))},
)


def resolve(sweep: str | dict[str, Any], operator: str = "norm", providers: str = "[torch]", **options: Any) -> Sweep:
    catalog = Catalog(DeviceInfo("cuda", ""), (), {"norm": NORM, "halves": HALVES}, (), machine_info())
    if isinstance(sweep, dict):
        config: Any = {"operator": operator, "sweep": sweep, "providers": ["torch"]}
    else:
        config = Path("x.yaml")
        config.write_text(f"operator: {operator}\nsweep: {sweep}\nproviders: {providers}\n")
    return configs.load_config(config, **options).resolve(catalog)


def errors(sweep: str | dict[str, Any], operator: str = "norm", **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(sweep, operator, **options)
    return str(caught.value).split("\n")


def values(sweep: Sweep, name: str) -> list[Any]:
    return [case.axes[name] for case in sweep.cases]


@pytest.mark.parametrize(
    ("written", "name", "expected"),
    [
        ("eps: [1e-6, 1e-5]", "eps", [1e-6, 1e-5]),
        ("eps: [1e-6, 0.000001, 1.0E-6, '1e-6']", "eps", [1e-6]),  # one case
        ("eps: [1, 0, -0.0]", "eps", [1.0, 0.0]),
        ("eps: .5", "eps", [0.5]),
        ("causal: [true, false]", "causal", [True, False]),
        ("causal: true", "causal", [True]),
        ("window: [-1, 64]", "window", [-1, 64]),
        ("window: {pow2: [6, 7]}", "window", [64, 128]),
        ("window: {start: 1, stop: 5, step: 2}", "window", [1, 3, 5]),
        ("mode: [full, backward]", "mode", ["full", "backward"]),
    ],
)
def test_values(written: str, name: str, expected: list[Any]) -> None:
    found = values(resolve(f"{{M: 1, N: 2, {written}}}"), name)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert "-" not in str(found[-1]) or found[-1]  # no -0.0


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("eps: small", 'x.yaml:2:26: eps: expected a number; got "small"'),
        ("eps: [1e-6, small]", 'x.yaml:2:33: eps: expected a number; got "small"'),
        ("eps: true", "x.yaml:2:26: eps: expected a number; got true"),
        ("eps:", "x.yaml:2:25: eps: expected a number; got nothing"),
        ("eps: {pow2: [1, 2]}", 'x.yaml:2:26: eps: expected a number; got {"pow2": [1, 2]}'),
        ("eps: [[1]]", "x.yaml:2:27: eps: expected a number; got [1]"),
        ("eps: [1e999]", "x.yaml:2:27: eps: expected a finite number; got Infinity"),
        ("eps: 'nan'", 'x.yaml:2:26: eps: expected a number; got "nan"'),
        ("causal: 1", "x.yaml:2:29: causal: expected true or false; got 1"),
        ("causal: [true, maybe]", 'x.yaml:2:36: causal: expected true or false; got "maybe"'),
        ("window: [1, 0.5]", "x.yaml:2:33: window: expected an integer, like the default -1; got 0.5"),
        ("window: [1, 2.0]", "x.yaml:2:33: window: expected an integer, like the default -1; got 2.0"),
        ("window: '7'",
         'x.yaml:2:29: window: expected an integer, like the default -1; got "7"'),
        ("mode: [forward, bckward]", 'x.yaml:2:37: mode: unknown value "bckward"; did you mean "backward"?'),
        ("mode: both", 'x.yaml:2:27: mode: unknown value "both"; choose from forward, backward, full'),
        ("esp: 1", 'x.yaml:2:21: unknown scalar "esp"; did you mean "eps"?'),
        ("cusal: true", 'x.yaml:2:21: unknown scalar "cusal"; did you mean "causal"?'),
        ("what: 1", 'x.yaml:2:21: unknown axis "what"; choose from M, N, dtype, order, mode, eps, causal, window'),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_what_is_allowed(written: str, message: str) -> None:
    assert errors(f"{{M: 1, N: 2, {written}}}") == [message]


def test_mode_needs_gradients() -> None:
    advice = "remove mode, or declare gradients= in the operator"
    assert errors("{M: 3, N: 2, mode: backward}", "halves") == [
        f"x.yaml:2:21: halves has no gradients, so it has no modes; {advice}"
    ]


def test_a_scalar_is_no_parameter_of_a_provider() -> None:
    [line] = errors("{M: 1, N: 2}", providers="[torch: {eps: 1}, mine: {mode: full}]")[:1]
    assert line == "x.yaml:3:21: eps is a scalar of norm; move it to sweep"


def test_set_and_mappings() -> None:
    sweep = resolve("{M: 1, N: 2}", sets=["eps=1e-6,1e-5", "causal=true", "mode=backward"])
    assert (values(sweep, "eps"), values(sweep, "causal")) == ([1e-6, 1e-5], [True, True])
    assert values(sweep, "mode") == ["backward", "backward"]
    assert errors("{M: 1, N: 2}", sets=["causal=on"]) == ['--set causal=on: causal: expected true or false; got "on"']
    assert errors("{M: 1, N: 2}", sets=["epss=1"]) == ['--set epss=1: unknown scalar "epss"; did you mean "eps"?']
    mapping = {"M": 1, "N": 2, "eps": [np.float64(1e-6), "1e-5", 1], "causal": np.True_, "window": np.int64(3)}
    sweep = resolve(mapping)
    assert values(sweep, "eps") == [1e-6, 1e-5, 1.0] and values(sweep, "causal")[0] is True
    Path("again.yaml").write_text(sweep.text)  # the text is recorded beside the results
    again = configs.load_config("again.yaml").resolve(
        Catalog(DeviceInfo("cuda", ""), (), {"norm": NORM}, (), machine_info())
    )
    assert again.cases == sweep.cases
    assert errors({"M": 1, "N": 2, "eps": ["x"]}) == ['config["sweep"]["eps"][0]: eps: expected a number; got "x"']


def test_a_size_without_a_value_is_an_error_at_its_place() -> None:
    assert values(resolve("{M: 2, N: [4, 10]}", "halves"), "N") == [4, 10]
    assert errors("{M: [2, 4], N: [4, 7, 9]}", "halves") == [
        "x.yaml:2:27: sweep: N/2 is not a whole number at N=7, so y has no shape; the first such case is "
        "halves M=2 N=7 float32; leave such sizes out",
    ]
    [line] = errors("{M: 1, N: {start: 2, stop: 5, step: 3}}", "halves")
    assert line.startswith("x.yaml:2:8: sweep: N/2 is not a whole number at N=5, so y has no shape")
