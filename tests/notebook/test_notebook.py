"""The Python API as a notebook uses it: functions and mappings in, frames, tables and pictures out."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from making import Write, failed, row
from small_sweep import SMALL

import kbench

# ---- what is exported


@pytest.mark.slow
def test_all_that_is_exported_is_there_and_importing_it_is_cheap() -> None:
    code = (
        "import sys, kbench; print({'torch', 'triton', 'pandas', 'numpy', 'matplotlib', 'yaml'} & set(sys.modules));"
        "print([name for name in kbench.__all__ if getattr(kbench, name, None) is None]);"
        "import kbench.reporting; print(callable(kbench.report), issubclass(kbench.UsageError, kbench.KbenchError))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "set()\n[]\nTrue True\n", done.stderr


# ---- frames


def results(write: Write, name: str = "softmax", factor: float = 1.0) -> Path:
    timed = {"deterministic": True, "samples": 9, "device_index": 0, "round_ms": (1.0, 1.5)}
    rows = [
        row(n, factor * n, provider=p, gbps=1 / n, session=s, **timed) for n in (1, 2) for p in "ab" for s in (0, 1)
    ]
    return write(name, [*rows, replace(failed(3, provider="a"), reason='a\nb,"c" | <i>')])


def test_a_frame_is_compared_as_its_file_is(write: Write) -> None:
    old, new = results(write, "old"), results(write, "new", 1.5)
    of_files = kbench.compare(f"old={old}", f"new={new}")
    of_frames = kbench.compare(kbench.load(old), kbench.load(new))
    assert (of_frames.old, of_frames.new) == ("old", "new")
    assert of_frames.rows == of_files.rows
    assert not any("kbench-" in note or "no such file" in note for note in of_frames.notes), (
        "no temporary file is named"
    )
    plain = pd.read_csv(new, keep_default_na=False)
    assert kbench.compare({"old": old, "new": plain}).rows == of_files.rows


def test_what_is_wrong_with_a_frame_is_told_by_its_name(write: Write) -> None:
    frame = kbench.load(results(write))
    with pytest.raises(kbench.UsageError, match=r"^softmax-2: the frame has no column ms, gbps; keep all columns"):
        kbench.compare(frame, frame.drop(columns=["ms", "gbps"]).rename_axis(None))
    broken = frame.astype({"ms": object})
    broken.loc[broken.index[0], "ms"] = "fast"
    with pytest.raises(kbench.ResultsError, match=r"^softmax\.csv:2: ms is 'fast', not a number"):
        kbench.compare(broken, frame)
    with pytest.raises(kbench.UsageError, match="the label 'a=b' is empty or has an equals sign"):
        kbench.compare({"a=b": frame})


@pytest.mark.slow
def test_pictures_and_pages_of_frames(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = kbench.load(results(write))
    pictures = kbench.plot(frame)
    assert pictures == [tmp_path / "softmax_gbps.png", tmp_path / "softmax_gbps.svg"], "beside the file it came from"
    assert pictures._repr_html_().startswith('<img alt="softmax_gbps.png" src="data:image/png;base64,')
    assert pictures._repr_html_().count("<img") == 1
    frame.attrs.clear()
    [picture] = kbench.plot({"mine & yours": frame}, formats="svg")
    assert picture.parent == Path() and picture.exists()
    page = kbench.report(frame, baseline=frame, out=tmp_path / "page.html", title="a frame")
    assert "a frame" in page.read_text() and f"{tempfile.gettempdir()}/kbench-" not in page.read_text()


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


def test_nothing_in_common_is_one_sentence_here_too(write: Write) -> None:
    comparison = kbench.compare({"a": write("a", [row(1)]), "b": write("b", [row(2)])})
    sentence = "nothing to compare: a and b have no row in common: N is 1 in a and 2 in b"
    assert repr(comparison) == f"<Comparison b against a: {sentence}>" and str(comparison) == f"{sentence}\n"
    assert "<table" not in comparison._repr_html_() and sentence in comparison._repr_html_()


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
