"""tools/measuring_salts.py measures a case with salts and without them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from common import ROOT


@pytest.mark.slow
def test_both_sides_have_times() -> None:
    options = ["--only", "matmul", "--repeats", "1", "--rep-ms", "1", "--divide", "128", "--cache", "warm"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "measuring_salts.py"), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    times = re.findall(r"\| matmul .* \| torch-native \| ([\d.]+) \| ([\d.]+) \|", done.stdout)
    assert done.returncode == 0 and len(times) == 2, done.stdout + done.stderr
    assert all(float(side) > 0 for pair in times for side in pair)
