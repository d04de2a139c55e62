"""The Python API as a notebook uses it: functions and mappings in, frames, tables and pictures out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from making import Write, failed, row
from small_sweep import SMALL

import kbench

# ---- what is exported


# ---- frames


def test_what_is_wrong_with_a_frame_is_told_by_its_name(write: Write) -> None:
    frame = kbench.load(write("softmax", [row(n, float(n), gbps=1.0) for n in (1, 2)]))
    with pytest.raises(kbench.UsageError, match=r"^softmax-2: the frame has no column ms, gbps; keep all columns"):
        kbench.compare(frame, frame.drop(columns=["ms", "gbps"]).rename_axis(None))
    broken = frame.astype({"ms": object})
    broken.loc[broken.index[0], "ms"] = "fast"
    with pytest.raises(kbench.ResultsError, match=r"^softmax\.csv:2: ms is 'fast', not a number"):
        kbench.compare(broken, frame)
    with pytest.raises(kbench.UsageError, match="the label 'a=b' is empty or has an equals sign"):
        kbench.compare({"a=b": frame})


# ---- comparisons


def test_a_comparison_shows_itself_and_what_a_file_says_is_text(write: Write) -> None:
    evil = '<script>alert(1)</script>&"'
    lost = replace(failed(9, provider=evil), reason=f"{evil} $x$")
    old, new = (write(name, [*(row(n, ms * n) for n in (1, 2)), lost]) for name, ms in (("old", 1.0), ("new", 1.5)))
    comparison = kbench.compare(f"old={old}", f"new={new}", fail_on="slower, missing")
    assert repr(comparison) == (
        "<Comparison new against old: gate failed: 2 slower (--fail-on slower,missing); 2 slower, 1 untimed>"
    )
    assert not comparison.passed
    assert str(comparison).startswith("! gate failed: 2 slower") and "+50.0%" in str(comparison)
    html = comparison._repr_html_()
    assert html.count("<td>slower</td>") == 2 and "1.5" in html and "mathjax_ignore" in html
    assert "<script" not in html and "&lt;script&gt;" in html


def test_a_long_comparison_shows_its_first_rows(write: Write) -> None:
    rows = [row(n, float(n)) for n in range(1, 301)]
    comparison = kbench.compare(write("a", rows), write("b", rows))
    assert len(repr(comparison)) < 300 and comparison._repr_html_().count("<tr") == 101
    assert "200 more rows are in" in comparison._repr_html_() and len(comparison.frame) == 300


# ---- mappings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"sweep": {"M": 4, "N": [None, object()]}},
            'config["sweep"]["N"][1]: a config cannot hold a value of type object',
        ),
        ({"measure": {"roundz": 1}}, 'config["measure"]["roundz"]: unknown key "roundz"; did you mean "rounds"?'),
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
