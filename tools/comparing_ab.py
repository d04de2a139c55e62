"""Shows on a real device what `kbench ab` says about two revisions with the same kernel, and about one that does 3 % more work.

    python tools/comparing_ab.py [DIR]        needs a CUDA device and git; writes same/ and slowed/ below DIR

It makes a repository in a temporary folder. Its three commits are the kernel of comparing_plugin.py, a change of the README,
and the kernel with more work. `EXTRA_PERCENT=5` plants another change, and `BUDGET=2m` sets the budget of a comparison.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLANTED = 'float(os.environ.get("EXTRA_PERCENT", "0"))'
"""What the plug-in has in place of the percentage."""

CONFIG = """
operator: softmax
plugins: [kernel.py]
sweep: {M: 4096, N: [4096, 6144, 8192, 12288, 16384], dtype: [float32, bfloat16]}
providers: [kernel]
baseline: kernel
measure: {warmup_ms: 5, rep_ms: 15, rounds: 3}
"""
LIMIT_S = 420
"""A comparison must end within its default budget of 5 minutes, the session that has begun, and the start of its processes."""


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "results/ab").resolve()
    with tempfile.TemporaryDirectory() as folder:
        make_repository(Path(folder), os.environ.get("EXTRA_PERCENT", "3"))
        for name, base, head in (("same", "HEAD~2", "HEAD~1"), ("slowed", "HEAD~1", "HEAD")):
            started = time.monotonic()
            command = [
                sys.executable,
                "-m",
                "kbench",
                "ab",
                base,
                head,
                "softmax.yaml",
                "--budget",
                os.environ.get("BUDGET", "5m"),
            ]
            command += ["--fail-on", "slower,faster", "--out", str(out / name)]
            done = subprocess.run(command, cwd=folder, timeout=LIMIT_S)
            print(f"{name}: exit code {done.returncode} after {time.monotonic() - started:.0f} s", flush=True)


def make_repository(folder: Path, percent: str) -> None:
    plugin = (HERE / "comparing_plugin.py").read_text()
    if PLANTED not in plugin:
        raise SystemExit(f"comparing_plugin.py no longer has {PLANTED}")
    (folder / "softmax.yaml").write_text(CONFIG)
    git(folder, "init", "--quiet")
    for readme, extra in (("one", "0"), ("two", "0"), ("two", percent)):
        (folder / "README.md").write_text(f"{readme}\n")
        (folder / "kernel.py").write_text(plugin.replace(PLANTED, f"{float(extra)}"))
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"README {readme}, {extra} % more work")


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=kbench", "-c", "user.email=kbench@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)


if __name__ == "__main__":
    main()
