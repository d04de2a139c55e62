"""Configs that come with kbench are found by name, in a checkout and in a wheel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from making import machine_info
from sample_configs import CONFIGS

from kbench.config.load import ConfigOptions, load_config
from kbench.config.plan import needed_bytes
from kbench.contract import registry
from kbench.contract.origin import shipped
from kbench.measure.catalog import describe_operator
from kbench.protocol import Catalog, DeviceInfo, ProviderInfo


@pytest.fixture(scope="module")
def catalog() -> Callable[[str], Catalog]:
    """The catalog of what comes with kbench, as seen from a machine with some device."""
    operators = {}
    for name in shipped():
        one = registry.operator(name)
        providers = {p.name: ProviderInfo(p.parameters) for p in one.providers.values()}
        operators[name] = replace(describe_operator(one), providers=providers)
    return lambda device: Catalog(DeviceInfo(device, ""), (), operators, (), machine_info())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_built_in_config_resolves_with_each_profile(
    path: Path, device: str, catalog: Callable[[str], Catalog]
) -> None:
    for profile in (None, "none", *load_config(path, ConfigOptions()).document.section("profiles")):
        sweep = load_config(path, ConfigOptions(profile=profile)).resolve(catalog(device))
        assert sweep.cases and sweep.baseline
        assert max(needed_bytes(sweep.info, case) for case in sweep.cases) <= 60e9  # of an 80 GB device
        if sweep.profile == "cpu":
            rows = sum(getattr(case, "M", 64) for case in sweep.cases)
            assert rows <= 1024  # each row is a millisecond to Triton's interpreter
