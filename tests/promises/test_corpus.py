"""What `kbench judge` must accept and what it must not, by name.

tests/corpus has 20 candidates that are right and 20 with an honest mistake, tests/cheats has 20 cheats. Without a choice, those
that do not import torch's compiler are checked with one seed, as `kbench judge` does first, in cases that stand for random
shapes; and test_judge judges all cheats. KBENCH_CORPUS_SEEDS=1,2,3 judges all sixty, with each of these seeds and with as many
random shapes as for a user, on the accelerator if there is one (with --timeout=1200).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from promises.outside import QUICK, ROOT, Kbench, Write
from promises.test_judge import verdicts

CORPUS, CHEATS = ROOT / "tests" / "corpus", ROOT / "tests" / "cheats"
CHOSEN_SEEDS = [int(seed) for seed in os.environ.get("KBENCH_CORPUS_SEEDS", "").split(",") if seed]
LEFT_OUT = () if CHOSEN_SEEDS else ("compiled",)

SWEEPS = {
    "softmax": "[{M: 5, N: 24, dtype: bfloat16}, {M: 7, N: 7, dtype: float32}, {M: 20, N: 513, dtype: float32}]",
    "rmsnorm": "[{M: 5, N: 24, dtype: float16}, {M: 20, N: 130, dtype: float32}]",
    "matmul": "[{M: 20, N: 40, K: 101, dtype: bfloat16}, {M: 20, N: 24, K: 40, dtype: float32}]",
}
"""For each operator a small and a larger case, in two dtypes; for softmax a square, and rows that are longer than a block."""

PUBLISHED = [
    "address_cache", "always_equal", "batch_and_skip", "constant_output", "fingerprint_cache", "half_of_the_rows",
    "lazy_after_many_calls", "lazy_output", "lower_precision", "only_when_checked", "other_thread", "patched_check",
    "patched_clock", "patched_equality", "patched_synchronize", "renamed_baseline", "same_memory", "stale_memory",
    "stolen_answer", "zeroed_input",
]  # fmt: skip
"""Cheats that others have reported. Their docstrings name the sources."""

LOADED = """
import importlib.util

for path in @PATHS@:
    spec = importlib.util.spec_from_file_location(path.rpartition("/")[2].removesuffix(".py"), path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""
"""A file that registers the candidates of other files."""


if CHOSEN_SEEDS:

    @pytest.fixture(autouse=True)
    def host_only() -> None:
        """Takes the place of the fixture that hides accelerators."""


def candidates(file: Path) -> list[str]:
    """The names that a file registers."""
    return re.findall(r'provider\("(\w+)"', file.read_text())


def test_the_corpus_has_sixty_candidates() -> None:
    counts = {kind: sum(len(candidates(file)) for file in CORPUS.glob(f"{kind}_*.py")) for kind in ("right", "wrong")}
    cheats = {name for file in CHEATS.glob("*.py") for name in candidates(file)}
    assert counts == {"right": 20, "wrong": 20} and len(cheats.intersection(PUBLISHED)) == 20


@pytest.mark.parametrize("seed", CHOSEN_SEEDS or [5])
@pytest.mark.parametrize("operator", SWEEPS)
def test_no_right_candidate_is_rejected_and_no_wrong_one_is_accepted(
    kbench: Kbench, write: Write, operator: str, seed: int
) -> None:
    right, wrong = (CORPUS / f"{kind}_{operator}.py" for kind in ("right", "wrong"))
    write("judged.py", LOADED.replace("@PATHS@", repr([str(right), str(wrong)])))
    write("sweep.yaml", f"{{operator: {operator}, providers: [torch-native], sweep: {SWEEPS[operator]}}}")
    chosen = [name for file in (right, wrong) for name in candidates(file) if name not in LEFT_OUT]
    if CHOSEN_SEEDS:
        options = ("--shapes", 20, "--seed", seed, "--provider", ",".join(chosen))
        ended = kbench("judge", "judged.py", "--against", "sweep.yaml", *QUICK, *options, "--json")
    else:
        options = ("--plugin", "judged.py", "--only", ",".join(chosen), "--set", f"seed={seed}", "--all")
        ended = kbench("check", "sweep.yaml", *options, "--json")
    judged = verdicts(ended)
    assert sorted(judged) == sorted(chosen)
    rejections = {
        name: judged[name]["failures"] + judged[name].get("doubts", [])
        for name in candidates(right)
        if name in judged and judged[name]["verdict"] != "pass"
    }
    acceptances = [name for name in candidates(wrong) if judged[name]["verdict"] != "wrong"]
    assert (rejections, acceptances) == ({}, [])


@pytest.mark.skipif(not CHOSEN_SEEDS, reason="test_judge judges all cheats; KBENCH_CORPUS_SEEDS=1,2,3 chooses seeds")
@pytest.mark.parametrize("seed", CHOSEN_SEEDS)
def test_no_published_cheat_is_trusted(kbench: Kbench, write: Write, seed: int) -> None:
    files = {file for file in CHEATS.glob("*.py") if set(candidates(file)) & set(PUBLISHED)}
    write("judged.py", LOADED.replace("@PATHS@", repr(sorted(map(str, files)))))
    longer = ("--set", "mode=forward", "--set", "rep_ms=20", "--set", "M=64", "--set", "N=64")
    options = (*QUICK, *longer, "--shapes", 0, "--seed", seed, "--provider", ",".join(PUBLISHED), "--json")
    judged = verdicts(kbench("judge", "judged.py", "--against", "softmax", "--baseline", "torch-native", *options))
    assert len(judged) == 20
    assert [name for name, verdict in judged.items() if verdict["verdict"] not in ("wrong", "not-trusted")] == []
