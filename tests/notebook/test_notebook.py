"""The Python API as a notebook uses it: functions and mappings in, frames, tables and pictures out."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from dataclasses import replace
from html.parser import HTMLParser
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


def test_columns_have_their_types(write: Write) -> None:
    frame = kbench.load(results(write))
    assert frame["deterministic"].dtype == "boolean" and frame["deterministic"].iloc[0] == True  # noqa: E712
    assert frame["deterministic"].iloc[-1] is pd.NA
    assert {str(frame[name].dtype) for name in ("samples", "device_index", "N")} == {"Int64"}
    assert frame["round_ms"].iloc[0] == (1.0, 1.5) and frame["round_ms"].iloc[-1] == ()


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


class Cells(HTMLParser):
    """The texts of all table cells, and the tags that occur."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_comparison_shows_itself(write: Write) -> None:
    found = kbench.compare(
        f"old={results(write, 'old')}", f"new={results(write, 'new', 1.5)}", fail_on="slower, missing"
    )
    assert repr(found) == (
        "<Comparison new against old: gate failed: 4 slower (--fail-on slower,missing); 4 slower, 1 untimed>"
    )
    assert not found.passed
    assert str(found).startswith("! gate failed: 4 slower") and "+50.0%" in str(found)
    html = Cells(found._repr_html_())
    assert html.texts.count("! slower") == 4 and "+50.0%" in html.texts
    assert html.tags <= {"div", "p", "b", "br", "table", "tr", "th", "td", "code"}
    assert "untimed: " not in html.texts and any("a b" in text for text in html.texts)


def test_a_comparison_as_a_frame(write: Write) -> None:
    frame = kbench.compare(results(write, "old"), results(write, "new", 1.5)).frame
    assert list(frame["verdict"]) == ["slower"] * 4 + ["untimed"]
    assert {name: str(frame[name].dtype) for name in ("N", "ratio", "ci_low", "q", "old", "old_sessions")} == {
        "N": "Int64", "ratio": "float64", "ci_low": "float64", "q": "float64", "old": "float64", "old_sessions": "int64",
    }  # fmt: skip
    assert frame["ratio"][0] == pytest.approx(1.5) and math.isnan(frame["ratio"][4])


def test_what_a_file_says_is_text_in_a_notebook(write: Write) -> None:
    evil = '<script>alert(1)</script>&"'
    rows = [replace(failed(n, provider=evil), reason=f"{evil} $x$") for n in (1, 2)]
    rows += [row(n, provider=f"{evil}2") for n in (1, 2)]
    found = kbench.compare(f"{evil}={write('a', rows)}", write("b", rows))
    html = Cells(found._repr_html_())
    assert "script" not in html.tags and any(evil in text for text in html.texts)
    assert "\n" not in repr(found)


def test_a_large_comparison_is_short_in_a_notebook(write: Write) -> None:
    rows = [row(n) for n in range(1000)]
    found = kbench.compare(write("a", rows), write("b", rows))
    assert len(repr(found)) < 300 and len(found._repr_html_()) < 50_000
    assert "900 more rows are in" in found._repr_html_() and len(found.frame) == 1000


def test_nothing_in_common_is_one_sentence_here_too(write: Write) -> None:
    found = kbench.compare({"a": write("a", [row(1)]), "b": write("b", [row(2)])})
    told = "nothing to compare: a and b have no row in common: N is 1 in a and 2 in b"
    assert repr(found) == f"<Comparison b against a: {told}>" and str(found) == f"{told}\n"
    assert "<table>" not in found._repr_html_() and told in found._repr_html_()


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


@pytest.mark.parametrize("options", [{"sessions": 2}, {"devices": "all"}, {"continuing": "append"}])
def test_functions_are_measured_in_one_process(options: dict[str, Any]) -> None:
    with pytest.raises(kbench.UsageError, match="put the functions into a file, and name it in plugins"):
        kbench.run({**SMALL, "providers": ["torch-native"]}, [torch.softmax], **options)


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
