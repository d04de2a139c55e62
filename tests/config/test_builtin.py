"""Configs that come with kbench are found by name, in a checkout and in a wheel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from making import machine_info
from sample_configs import CONFIGS

from kbench.config.load import load_config
from kbench.contract import registry
from kbench.contract.origin import shipped
from kbench.measure.catalog import describe_operator
from kbench.protocol import Catalog, DeviceInfo, ProviderInfo


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """The catalog of what comes with kbench."""
    operators = {}
    for name in shipped():
        one = registry.operator(name)
        providers = {p.name: ProviderInfo(p.parameters) for p in one.providers.values()}
        operators[name] = replace(describe_operator(one), providers=providers)
    return Catalog(DeviceInfo("cpu", ""), (), operators, (), machine_info())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_built_in_config_resolves_with_each_profile(path: Path, catalog: Catalog) -> None:
    for profile in ("none", *load_config(path).document.section("profiles")):
        sweep = load_config(path, profile=profile).resolve(catalog)
        assert sweep.cases and sweep.baseline
        assert max(sweep.info.needed_bytes(case) for case in sweep.cases) <= 60e9  # of an 80 GB device
        if sweep.profile == "cpu":
            rows = sum(getattr(case, "M", 64) for case in sweep.cases)
            assert rows <= 1024  # each row is a millisecond to Triton's interpreter
