"""Measures on a real device what `kbench compare` says about the same code twice, and about a kernel that does 5 % more work.

    python tools/comparing_device.py [DIR]        needs a CUDA device; writes a/, b/ and slowed/ below DIR

It writes three files of three sessions each, and measures a session of each file in turn, as a CI job measures base
and head.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = {"a": "0", "b": "0", "slowed": "5"}
"""The folder of each file, and how many per cent more work its kernel does."""

CONFIG = """
operator: softmax
sweep:
  M: 4096
  N: [1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216,
      10240, 11264, 12288, 13312, 14336, 16384, 20480, 24576, 28672, 32768]
  dtype: [float32, bfloat16]
providers: [kernel]
baseline: kernel
measure: {warmup_ms: 5, rep_ms: 15, rounds: 3}
"""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results/comparing")
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "softmax.yaml"
    config.write_text(CONFIG)
    plugin = str(HERE / "comparing_plugin.py")
    for more in ([], ["--append"], ["--append"]):
        for name, extra in FILES.items():
            run = ["run", str(config), "--plugin", plugin, "--no-plot", "--sessions", "1", "--out", str(folder / name)]
            kbench(*run, *more, EXTRA_PERCENT=extra)
    for name in ("b", "slowed"):
        kbench("compare", *(f"{label}={folder / label / 'softmax.csv'}" for label in ("a", name)), "--sort", "key")


def kbench(*arguments: str, **environment: str) -> None:
    subprocess.run([sys.executable, "-m", "kbench", *arguments], env=os.environ | environment, check=True)


if __name__ == "__main__":
    main()
