"""A results file."""

from __future__ import annotations

from pathlib import Path

import pytest
from gelu_table import gelu_row, write_gelu_rows


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write_gelu_rows(
        tmp_path / "gelu.csv", gelu_row(256), gelu_row(1024, params="num_warps=4", flags=("noisy", "throttled"))
    )
