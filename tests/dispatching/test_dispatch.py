"""`kbench dispatch`: words and scalars as arguments, what is refused, and what the command prints."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from decisions import NS, emitted, rows, written

from kbench.commands.dispatch import dispatch as command
from kbench.dispatching.dispatch import DispatchOptions, dispatch
from kbench.errors import ResultsError, UsageError

# ---- words, scalars, and what is refused


def test_modes_and_booleans_are_arguments_and_a_single_eps_is_not(tmp_path: Path) -> None:
    def times(mode: str, causal: bool) -> dict[str, float]:
        return {"torch": 1.0, "mine": 0.5 if mode == "backward" and causal else 2.0}

    cases = [
        rows(n, times(mode, causal), axes={"eps": 1e-5, "causal": causal, "mode": mode})
        for n in NS
        for mode in ("forward", "backward")
        for causal in (True, False)
    ]
    found = dispatch([written(tmp_path / "a.csv", cases, ("M", "N", "eps", "causal", "mode"))], DispatchOptions())
    choose = emitted(found, tmp_path)
    assert choose(M=64, N=512, causal=True, mode="backward", dtype="float32") == "mine"
    assert choose(M=64, N=512, causal=False, mode="backward", dtype="float32") == "torch"
    assert choose(M=64, N=512, causal=True, mode="sideways", dtype="float32") == "torch"
    assert "only eps=1e-05" in (tmp_path / "dispatch.py").read_text()


def test_what_one_function_cannot_hold_is_refused(tmp_path: Path) -> None:
    speeds = {"torch": 1.0, "mine": 0.5}
    here = written(tmp_path / "a.csv", [rows(n, speeds) for n in NS])
    other = written(tmp_path / "gelu.csv", [rows(n, speeds, operator="gelu") for n in NS])
    graph = written(tmp_path / "graph.csv", [rows(n, speeds, timer="graph") for n in NS])
    elsewhere = written(tmp_path / "b.csv", [rows(n, speeds, 32, device="NVIDIA A100") for n in NS])
    keyword = written(tmp_path / "k.csv", [rows(n, speeds, axes={"lambda": n}) for n in NS], ("M", "N", "lambda"))
    for files, message in [
        (
            [here, other],
            r"several operators \(gelu in .*gelu.csv, softmax in .*a.csv\), .*--where operator=NAME",
        ),
        ([here, graph], r"softmax M=64 N=128 float32 was measured twice: in .*a.csv .* and in .*graph.csv"),
        ([here, elsewhere], r"several devices \(NVIDIA A100, NVIDIA H200\), .*--where device=NAME"),
        ([keyword], "the axis 'lambda' cannot be the name of an argument"),
    ]:
        with pytest.raises(UsageError, match=message):
            dispatch(files, DispatchOptions())


def test_a_noisy_machine_decides_nothing(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "mine": 0.5}) for n in NS]
    for place, row in enumerate(row for case in cases for row in case if row.provider == "repeat"):
        row.ms = 1.0 + place
        row.round_ms = (row.ms,) * 5
    with pytest.raises(ResultsError, match=r"a\.csv: this machine is too noisy.*; measure again"):
        dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions())


# ---- the command


def test_the_same_results_give_the_same_decision_in_any_order(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "row": 0.5 if m * n < 70_000 else 2.0}, m) for n in NS for m in (8, 64, 512)]
    ordered = dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions())
    random.Random(1).shuffle(cases)
    shuffled = dispatch([written(tmp_path / "b.csv", cases)], DispatchOptions())
    assert (shuffled.decision, shuffled.report_lines) == (ordered.decision, ordered.report_lines)


@pytest.mark.parametrize("sizes", [(64, 64), (0, 64)])
def test_a_map_that_cannot_be_drawn_is_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sizes: tuple[int, ...]
) -> None:
    cases = [rows(n, {"torch": 1.0, "mine": 2.0}) for n in dict.fromkeys(sizes)]
    command([written(tmp_path / "a.csv", cases)], tmp_path / "d.py", holdout="0")
    assert not (tmp_path / "d.png").exists()
    assert "no map was drawn: a map needs a size that varies and is never 0" in capsys.readouterr().err
