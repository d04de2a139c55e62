"""The Python API as a notebook uses it: functions and mappings in, frames, tables and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import kbench

SMALL = {
    "operator": "softmax",
    "sweep": {"M": 4, "N": range(8, 17, 8), "dtype": torch.float32},
    "measure": {"rounds": 1, "rep_ms": 1, "warmup_ms": 1},
}


# ---- mappings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"sweep": {"M": 4, "N": [None, object()]}},
            'config["sweep"]["N"][1]: a config cannot hold a value of type object',
        ),
        ({"plugins": ["gone.py"]}, 'config["plugins"][0]: no such file: gone.py; name a Python file'),
    ],
)
def test_what_is_wrong_with_a_mapping_is_told_by_its_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(kbench.ConfigError) as caught:
        kbench.run({**SMALL, "providers": ["torch-native"], **change})
    assert message in str(caught.value)


# ---- functions


def test_a_function_is_a_provider_while_it_is_measured_and_settings_are_put_back(tmp_path: Path) -> None:
    def torch_native(x: torch.Tensor) -> torch.Tensor:
        torch.set_num_threads(3)
        return torch.softmax(x, -1)

    before = dict(kbench.operator("softmax").providers), torch.get_num_threads()
    rows = kbench.run(
        {**SMALL, "providers": ["torch-native"]}, {"torch-native": torch_native}, out=tmp_path, sets="N=8"
    )
    assert list(rows[rows.role == "provider"].provider) == ["torch-native"]
    assert (kbench.operator("softmax").providers, torch.get_num_threads()) == before


def test_where_a_provider_is_defined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to the working directory, which in a job is the repository; nothing about what lies elsewhere."""
    provider = kbench.operator("softmax").providers["torch-native"]
    monkeypatch.chdir(Path(kbench.__file__).parents[1])
    file, _, line = provider.place.rpartition(":")
    assert "def " in "".join(Path(file).read_text().splitlines()[int(line) - 1 : int(line) + 3])
    monkeypatch.chdir(tmp_path)
    assert provider.place == ""
