"""What may be called how: a name that a run accepts is one that every reader of its results shows and stores."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_executor import machine_info

from kbench import reporting, summary
from kbench.analysis import analyse
from kbench.analysis.files import OWN, load_sources
from kbench.comparison.compare import compare_results
from kbench.comparison.formats import FORMATS
from kbench.config.load import load_config
from kbench.contract.operator import Operator, registered
from kbench.contract.tensor import Tensor
from kbench.errors import ConfigError
from kbench.execute.writer import Writer
from kbench.plotting import terminal_charts
from kbench.plotting.picture_plan import PICTURE_KINDS, Choices, plan_pictures
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo
from kbench.results.case import Case
from kbench.results.reader import read_results
from kbench.results.row import Row, csv_header

UGLY = {
    "a line break": "a\nb",
    "a tab": "a\tb",
    "escapes": "\x1b]0;owned\x07",
    "a surrogate": "a\udcff",
    "a line of Unicode": "a\u2028b",
    "200,000 letters": "x" * 200_000,
    "a formula": '=HYPERLINK("http://evil.example","click")',
    "a plus": "+cmd",
    "a minus": "-cmd",
    "an at sign": "@SUM(1)",
    "nothing": "",
    "blanks around": " a ",
    "no text": 7,
}
ugly = pytest.mark.parametrize("name", UGLY.values(), ids=UGLY)


pytestmark = pytest.mark.usefixtures("no_operators")


def operator(name: Any = "scale", axes: Any = ("M", "N"), **others: Any) -> Operator:
    tensors: dict[str, Any] = {"inputs": {"t": Tensor()}, "outputs": {"u": Tensor()}, "reference": lambda t, **words: t}
    return Operator(name, axes, **(tensors | others))


def one_line(refused: pytest.ExceptionInfo[ValueError]) -> None:
    assert str(refused.value).isprintable() and len(str(refused.value)) < 400


@ugly
def test_no_ugly_name_is_registered(name: Any) -> None:
    for arguments in (
        {"name": name},
        {"axes": ("M", name)},
        {"choices": {name: ("a", "b")}},
        {"choices": {"form": ("a", name)}},
    ):
        with pytest.raises(ValueError, match=r"a name|not printable|characters") as refused:
            operator(**arguments)
        one_line(refused)
    assert registered == {}
    for arguments in ({"name": name}, {"name": "fine", "label": name or " "}):  # without a label it is the name
        with pytest.raises(ValueError, match=r"a name|not printable|characters") as refused:
            operator(f"scale-{len(registered)}").provider(**arguments)
        one_line(refused)


def test_a_parameter_of_200_000_letters_is_not_registered() -> None:
    scope: dict[str, Any] = {}
    exec(f"def provider(x, *, {'n' * 200_000}=1): ...", scope)
    with pytest.raises(ValueError, match="parameter") as refused:
        operator().provider("mine")(scope["provider"])
    one_line(refused)


@pytest.mark.parametrize("value", [r'"a\nb"', r'"\e]0;owned"', "x" * 100_000, r'["fine", "\u2028"]'])
def test_a_parameter_is_set_to_words_in_one_line(value: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"operator: scale\nsweep: {{M: 8}}\nproviders:\n  - mine:\n      mode: {value}\n")
    described = OperatorInfo(("M",), {}, ("float32",), providers={"mine": ProviderInfo(parameters={"mode": None})})
    catalog = Catalog(DeviceInfo("cpu", ""), (), {"scale": described}, (), machine_info())
    with pytest.raises(ConfigError) as refused:
        load_config(path).resolve(catalog)
    [line] = str(refused.value).splitlines()
    assert line.startswith(f"{path}:5:") and line.isprintable() and len(line) < 1000


# -- axes, and the words of those who read them


def candidates() -> Iterator[str]:
    """Names that something in kbench, pandas or a format uses for something else."""
    yield from csv_header([])
    yield from (name for name in dir(Case) if not name.startswith("_"))
    yield from (
        "line",
        "axes",
        "operator",
        "x",
        "y",
        "rows",
        "index",
        "size",
        "T",
        "name",
        "values",
        "count",
        "level_0",
    )
    yield from ("baseline", "contender", "verdict", "ratio", "q", "metric", "old", "new", "us", "GB/s", "fastest")
    yield from OWN


@pytest.mark.slow
@pytest.mark.parametrize("axis", sorted(set(candidates())))
def test_what_a_run_accepts_its_readers_accept(axis: str, tmp_path: Path) -> None:
    try:
        operator(axes=("M", axis))
    except ValueError as refused:
        assert axis in csv_header([]) or axis == "line" or hasattr(Case("a", {}, "float32"), axis), refused
        assert "rename the axis" in str(refused)
        return
    old, new = (written(tmp_path / f"{name}.csv", axis, ms) for name, ms in (("old", 0.1), ("new", 0.2)))
    assert read_results(old).axes == ("M", axis)
    found = compare_results(str(old), str(new))
    for text in FORMATS.values():
        assert text(found)
    cells = list(csv.DictReader(io.StringIO(FORMATS["csv"](found))))
    assert sorted({cell.get(f"axis_{axis}") or cell[axis] for cell in cells}, key=int) == ["64", "128", "256"]
    for kind in (kind for kind in PICTURE_KINDS if kind != "change"):
        planned = plan_pictures(load_sources([old]), Choices(kind=kind, x=axis))
        panels = [panel for page in planned.pages for panel in page.panels]
        assert len(panels) == (3 if kind == "bars" else 1), kind
        assert "".join(terminal_charts(load_sources([old]), Choices(kind=kind, x=axis), 80, plain=True))
    [times] = summary.times_tables(analyse(rows(axis, 0.1), "torch-native"))
    assert len(times.rows) == 3


def test_pictures_and_reports_add_no_columns_but_their_own(tmp_path: Path) -> None:
    """Else an axis of that name would be overwritten: see OWN."""
    from kbench.analysis import metrics
    from kbench.plotting.selection.along import along
    from kbench.plotting.selection.points import axis_names, points

    loaded = load_sources([written(tmp_path / "a.csv", "N", 0.1)])
    drawn, _ = along(points(loaded, metrics.metric_by_name("ms")), axis_names(loaded), None, 8)
    assert set(drawn.columns) - set(csv_header(["M", "N"])) <= set(OWN)


def test_a_report_tells_an_axis_from_its_own_columns(tmp_path: Path) -> None:
    for axis in ("file", "curve", "kind"):
        page = reporting.write_report([written(tmp_path / f"{axis}.csv", axis, 0.1)], tmp_path / "r.html")
        assert f"axis_{axis}" in Path(page).read_text(encoding="utf-8")


def rows(axis: str, ms: float) -> list[Row]:
    return [
        Row(
            Case("scale", {"M": 16, axis: size}, "float32"), provider, ms=ms * size * slower, gbps=5 / ms, speedup=1.0,
            round_ms=(ms, ms), device="D", timer="do_bench", cache="cold",
        )
        for size in (64, 128, 256)
        for provider, slower in (("torch-native", 1.0), ("mine", 2.0))
    ]  # fmt: skip


def written(path: Path, axis: str, ms: float) -> Path:
    writer = Writer(path, ("M", axis))
    writer.write(rows(axis, ms))
    return path


# -- files of a plug-in


def test_sources_that_are_not_utf_8_or_no_files_are_hashed_and_not_fatal(tmp_path: Path) -> None:
    plugin = tmp_path / "latin.py"
    code = "# -*- coding: latin-1 -*-\ndef inner(op):\n    @op.provider('mine')\n    def caf\xe9(x): return x\n"
    plugin.write_bytes(code.encode("latin-1"))
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    scope: dict[str, Any] = {}
    exec(compile(plugin.read_bytes(), str(plugin), "exec"), scope)
    scale = operator()
    scope["inner"](scale)
    first = scale.providers["mine"].source_hash
    more = [tmp_path / "missing", tmp_path / "binary", tmp_path]
    assert len(first) == 12 == len(replace(scale.providers["mine"], sources=tuple(more)).source_hash)
    plugin.write_bytes(code.replace("return x", "return -x").encode("latin-1"))
    assert replace(scale.providers["mine"]).source_hash != first  # a provider reads its files once


# -- odd names that are accepted

ODD = """
import kbench, torch

for name in ('a "quoted" name', "semi;colon|pipe", "<script>alert(1)</script>", "::error::x", "#", "x" * 200):
    @kbench.operator("softmax").provider(name, label=name)
    def odd(x, *, style="a"):
        return torch.softmax(x, -1)
"""


@pytest.mark.slow
def test_odd_names_are_measured_continued_and_read(kbench: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD, encoding="utf-8")
    (tmp_path / "s.yaml").write_text("""
operator: softmax
sweep: {M: 8, N: 64}
providers: [torch-native, "#": {style: ["a b", "統", "=1", -1]}]
measure: {warmup_ms: 1, rep_ms: 1, rounds: 1}
""")
    command = ["run", "s.yaml", "--plugin", "odd.py"]
    done = kbench(*command, "--no-plot")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "results" / "s.csv"
    rows = read_results(path).rows
    assert len(rows) == 1 + 4 + 5 + 3 and {row.status for row in rows} == {"ok"}

    again = kbench(*command, "--resume")
    assert again.returncode == 0 and "nothing left to measure" in again.stderr
    for text in FORMATS.values():
        assert text(compare_results(str(path), str(path)))
    assert "<script>alert(1)" not in Path(reporting.write_report([path], tmp_path / "r.html")).read_text(
        encoding="utf-8"
    )
    assert len(load_sources([path])[0].configurations) == 10
