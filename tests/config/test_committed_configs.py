"""The configs that come with kbench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from common import ROOT
from fake_executor import machine_info
from sample_configs import CONFIGS, names

from kbench.config import load as configs
from kbench.protocol import Catalog, DeviceInfo, ProviderInfo


@pytest.fixture(scope="module")
def shipped() -> Callable[[str], Catalog]:
    """The catalog of what comes with kbench, as seen from a machine with some device."""
    from kbench import registry
    from kbench.contract import origin
    from kbench.measure.catalog import describe_operator

    operators = {}
    for name in origin.shipped():
        one = registry.operator(name)
        providers = {p.name: ProviderInfo(p.label, p.parameters) for p in one.providers.values()}
        operators[name] = replace(describe_operator(one), providers=providers)
    return lambda device: Catalog(DeviceInfo(device, ""), (), operators, (), machine_info())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_committed_config_resolves(path: Path, device: str, shipped: Callable[[str], Catalog]) -> None:
    profiles = configs.load_config(path).document.section("profiles")
    for profile in (None, "none", *profiles):
        sweep = configs.load_config(path, profile=profile).resolve(shipped(device))
        assert sweep.cases and sweep.baseline
        assert max(sweep.info.needed_bytes(case) for case in sweep.cases) <= 60e9  # of an 80 GB device
        if sweep.profile == "cpu":
            assert sum(case.M for case in sweep.cases) <= 1024  # each row is a millisecond to Triton's interpreter


def test_the_committed_configs_are_those_of_the_readme() -> None:
    assert {path.stem for path in CONFIGS} >= {
        "softmax", "softmax-ladder", "softmax-persistent", "softmax-warps", "softmax-large", "gelu",
    }  # fmt: skip


def test_softmax_yaml_is_the_published_sweep(shipped: Callable[[str], Catalog]) -> None:
    sweep = configs.load_config(ROOT / "configs" / "softmax.yaml").resolve(shipped("cuda"))
    assert [(case.M, case.N) for case in sweep.cases] == [(4096, 128 * i) for i in range(2, 100)]
    assert names(sweep) == ["triton", "torch-native", "torch-jit", "cuda"]
