"""`kbench init bench.py`: a config and a plug-in for a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import Kbench, Write

SCRIPT = """
import torch
import triton


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"], x_vals=[64, 128], line_arg="provider", line_vals=["torch"], line_names=["torch"],
        plot_name="sums", args={},
    )
)
def bench(N, provider):
    x = torch.rand(N)
    return triton.testing.do_bench(lambda: x.sum())


bench.run()
"""


def test_init_writes_the_config_and_the_plug_in_and_overwrites_neither(
    kbench: Kbench, folder: Path, write: Write
) -> None:
    pytest.importorskip("triton")
    write("bench.py", SCRIPT)
    made = kbench("init", "bench.py")
    assert made.code == 0 and "bench.yaml" in made.out and "bench_plugin.py" in made.out
    files = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    assert sorted(files) == ["bench.py", "bench.yaml", "bench_plugin.py"] and "operator: sums" in files["bench.yaml"]
    again = kbench("init", "bench.py")
    assert again.code == 2 and "bench.yaml: exists already" in again.err
    assert files == {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
