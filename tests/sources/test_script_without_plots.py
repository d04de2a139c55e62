"""Scripts that declare plots, and give kbench nothing or not everything to measure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

from kbench.measure.tampering import settings
from kbench.sources import SourceFault
from kbench.sources.loading import load_plots

PLOT = """
import torch, triton

@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"], x_vals={x_vals}, line_arg="provider", line_vals={line_vals}, line_names={line_vals}, plot_name="{name}",
        ylabel="ms", args={{}},
    )
)
def {function}(N, provider):
    x = torch.ones(N)
    return triton.testing.do_bench(lambda: x + 1)
"""


def plot(name: str, x_vals: str = "[4]", line_vals: str = '["a"]', run: bool = True) -> str:
    function = name.replace("-", "_")
    declared = PLOT.format(x_vals=x_vals, line_vals=line_vals, name=name, function=function)
    return declared + f"{function}.run()\n" * run


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Loads the text of a script in this process, and gives back what the script may change."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    def loaded(text: str) -> list[str]:
        (tmp_path / "bench.py").write_text(text)
        return [each.operator for each in load_plots(tmp_path / "bench.py", (), lambda call: [1.0], settings)]

    return loaded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (plot("no-lines", line_vals="[]"), "line_vals of the plot no-lines is empty, so there is nothing to measure"),
        (
            plot("no-lines", line_vals="[]").replace("line_names=[]", 'line_names=["a"]'),
            "line_vals of the plot no-lines is empty",
        ),
        (plot("no-points", x_vals="[]"), "x_vals of the plot no-points is empty, so there is nothing to measure"),
        (plot("no-run", run=False), "declares a benchmark with triton.testing.perf_report, but never calls its run()"),
    ],
)
def test_a_plot_without_anything_to_measure_is_named(load, text: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SourceFault, match=message.replace("(", r"\(").replace(")", r"\)")):
        load(text)


def test_an_empty_plot_beside_another_one_is_left_out_with_a_note(load, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    assert load(plot("hunt-empty", line_vals="[]") + plot("hunt-good")) == ["hunt-good"]
    assert (
        "bench.py: line_vals of the plot hunt-empty is empty, so kbench does not measure this plot"
        in capfd.readouterr().err
    )


def test_a_value_that_is_there_twice_is_measured_once_with_a_note(load, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    assert load(plot("hunt-twice", x_vals="[4, 8, 4]", line_vals='["a", "a", "b"]')) == ["hunt-twice"]
    said = capfd.readouterr().err
    assert "bench.py: x_vals of the plot hunt-twice has 4 more than once; kbench measures it once" in said
    assert "bench.py: line_vals of the plot hunt-twice has 'a' more than once; kbench measures it once" in said
    assert load(plot("hunt-once", x_vals="[4, 8]", line_vals="[1, True]")) == ["hunt-once"]
    assert not capfd.readouterr().err
