"""What the tests of configs share: a catalog, configs, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from common import ROOT
from making import machine_info

from kbench.config import load as configs
from kbench.config.load import Config
from kbench.config.resolve import Sweep
from kbench.contract.tensor import Layout
from kbench.errors import ConfigError
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, PluginError, ProviderInfo

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def entry(axes: list[str], choices: dict[str, tuple[str, ...]], providers: dict[str, list[str]]) -> OperatorInfo:
    described = {name: ProviderInfo(name, dict.fromkeys(parameters)) for name, parameters in providers.items()}
    matrix = {"t": Layout(tuple(axes))}
    dtypes = ("float32", "float16", "bfloat16")
    return OperatorInfo(tuple(axes), choices, dtypes, {}, described, inputs=matrix, outputs=matrix)


def catalog(device: str = "cuda", failures: tuple[PluginError, ...] = ()) -> Catalog:
    softmax = {"triton": [], "torch-native": [], "cuda": ["threads"], "triton-row": ["num_warps", "num_stages"]}
    operators = {
        "softmax": entry(["M", "N"], {}, softmax),
        "gelu": entry(["M", "N"], {"approximate": ("tanh", "none")}, {"triton": [], "torch-native": []}),
    }
    return Catalog(DeviceInfo(device, "a device"), (), operators, failures, machine_info())


BROKEN = PluginError("mine (my.kernels)", "my.py:3", "NameError: name 'x' is not defined")
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


def resolve(text: str | bytes, device: str = "cuda", failures: tuple[PluginError, ...] = (), **options: Any) -> Sweep:
    return load(text, **options).resolve(catalog(device, failures))


def errors(text: str | bytes, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(text, **options)
    return str(caught.value).split("\n")


def minimal(sweep: str = "{M: 1, N: 2}", providers: str = "[triton]", rest: str = "", operator: str = "softmax") -> str:
    return f"operator: {operator}\nsweep: {sweep}\nproviders: {providers}\n{rest}"
