"""What the tests of configs share: a catalog, configs, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from common import ROOT
from making import machine_info

from kbench.config import load as configs
from kbench.config.load import Config
from kbench.config.plan import Plan
from kbench.contract.tensor import Layout
from kbench.errors import ConfigError
from kbench.protocol import Catalog, DeviceInfo, Fault, OperatorInfo, ProviderInfo

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def operator(*axes: str, models: tuple[dict[str, str], ...] = (), **fields: Any) -> OperatorInfo:
    """An operator of matrices with these axes. `models` are the shapes that models have in it."""
    matrix = {"x": Layout(axes)}
    declared = {"choices": {}, "inputs": matrix, "outputs": matrix, "providers": {"torch": ProviderInfo()}}
    return OperatorInfo(axes, dtypes=("float32", "float16", "bfloat16"), model_axes=models, **(declared | fields))


PROVIDERS = {"triton": [], "torch-native": [], "cuda": ["threads"], "triton-row": ["num_warps", "num_stages"]}
OPERATORS = {
    "softmax": operator(
        "M", "N", providers={name: ProviderInfo(dict.fromkeys(words)) for name, words in PROVIDERS.items()}
    ),
    "norm": operator(
        "M", "N", models=({"M": "tokens", "N": "hidden"},), scalars={"eps": 1e-6, "causal": False, "window": -1}
    ),
    "halves": operator("M", "N", inputs={"x": Layout(("M", "2*N"))}, outputs={"y": Layout(("M", "N/2"))}),
    "gate": operator(
        "M",
        "N",
        models=(
            {"M": "tokens", "N": "intermediate"},
            {"M": "tokens*active_experts", "N": "expert_intermediate"},
        ),
    ),
    "scores": operator("tokens", "S", "D", models=({"tokens": "tokens", "D": "heads*head_dim"},)),
}


BROKEN = Fault("my.py:3", "NameError: name 'x' is not defined", "mine (my.kernels)")
"""The plug-in of an installed package."""

SOFTMAX = """\
operator: softmax
sweep:
  M: 4096
  N: {start: 256, stop: 12672, step: 128}
  dtype: float32
providers:
  - triton
  - torch-native
  - triton-row: {num_warps: [4, 8, 16]}
baseline: torch-native
measure: {timer: do_bench, cache: cold, warmup_ms: 10, rep_ms: 20}
profiles:
  cpu: {sweep: {M: 256, N: [256, 1024]}}
  quick: {measure: {rounds: 2, rep_ms: 5}}
"""


def load(text: str | bytes, **options: Any) -> Config:
    path = Path("x.yaml")
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return configs.load_config(path, **options)


def resolve(text: str | bytes, failures: tuple[Fault, ...] = (), **options: Any) -> Plan:
    catalog = Catalog(DeviceInfo("cuda", "a device"), (), OPERATORS, failures, machine_info())
    return load(text, **options).resolve(catalog)


def errors(text: str | bytes, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(text, **options)
    return str(caught.value).split("\n")


def minimal(sweep: str = "{M: 1, N: 2}", providers: str = "[triton]", rest: str = "", operator: str = "softmax") -> str:
    return f"operator: {operator}\nsweep: {sweep}\nproviders: {providers}\n{rest}"
