"""`kbench plot`: results as pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from promises.outside import ROOT, Ended, Kbench, MadeOnce, run_kbench, write_results
from promises.planted import NOISE, SIZES, case, picture_words, write_planted, write_sessions, write_slower

H200 = ROOT / "results" / "h200"
METRICS = {
    "gbps": "GB/s",
    "ms": "time (\N{MICRO SIGN}s)",
    "speedup": "speed-up over the baseline",
    "copy_fraction": "share of the copy's GB/s",
    "ulp": "largest error (ulp)",
}
"""What the axis of each metric says."""


@pytest.fixture
def results(folder: Path) -> Path:
    """The planted results."""
    return write_planted(folder / "planted.csv")


@pytest.fixture
def pictures(made_once: MadeOnce) -> Path:
    """A folder with pictures of the planted results: of each metric, and of each kind."""

    def draw(folder: Path) -> None:
        csv = write_planted(folder / "planted.csv")
        for options in (*(("--metric", metric) for metric in METRICS), ("--kind", "bars"), ("--kind", "heatmap")):
            ended = run_kbench("plot", csv, *options, "--format", "svg", folder=folder)
            assert ended.code == 0, ended.err

    return made_once("pictures", draw)


def drawn(ended: Ended, folder: Path) -> list[Path]:
    """The paths that the command printed."""
    assert ended.code == 0, ended.err
    return [folder / line for line in ended.out.split()]


def words(ended: Ended, folder: Path) -> list[str]:
    """The texts of the SVG that the command drew."""
    [path] = drawn(ended, folder)
    return picture_words(path)


# -- files


def test_a_png_and_an_svg_are_written_beside_the_results(kbench: Kbench, folder: Path, results: Path) -> None:
    paths = drawn(kbench("plot", results), folder)
    assert [path.name for path in paths] == ["planted_gbps.png", "planted_gbps.svg"]
    assert all(path.parent == folder and path.stat().st_size > 5000 for path in paths)
    assert paths[0].read_bytes().startswith(b"\x89PNG")


def test_format_and_out_choose_the_types_and_the_folder(kbench: Kbench, folder: Path, results: Path) -> None:
    paths = drawn(kbench("plot", results, "--format", "pdf,png", "--out", "new/pictures"), folder)
    assert [path.suffix for path in paths] == [".pdf", ".png"]
    assert all(path.parent == folder / "new" / "pictures" and path.stat().st_size > 5000 for path in paths)


def test_the_same_results_and_options_give_the_same_bytes(kbench: Kbench, folder: Path, results: Path) -> None:
    first, second = (
        [path.read_bytes() for path in drawn(kbench("plot", results, "--out", name), folder)] for name in ("a", "b")
    )
    assert first == second


def test_theme_dark_is_a_picture_of_its_own_with_other_colours(kbench: Kbench, folder: Path, results: Path) -> None:
    light, dark = (
        drawn(kbench("plot", results, "--format", "svg", "--theme", theme), folder)[0] for theme in ("light", "dark")
    )
    assert light != dark and "dark" in dark.name
    background = [re.findall(r"fill: (#[0-9a-f]{6})", path.read_text())[0] for path in (light, dark)]
    assert int(background[0][1:3], 16) > 200 > 60 > int(background[1][1:3], 16)


# -- what a picture of lines shows


def test_every_metric_is_drawn_with_unit_axis_and_providers(pictures: Path) -> None:
    for metric, unit in METRICS.items():
        texts = set(picture_words(pictures / f"planted_{metric}.svg"))
        assert {unit, "N", "torch", "fast", "even", "picky"} <= texts, metric


def test_a_picture_says_what_was_measured_where_and_when(pictures: Path) -> None:
    texts = " ".join(picture_words(pictures / "planted_gbps.svg"))
    for word in ("softmax", "float32", "M=4096", "NVIDIA H200", "2026-11-20", "do_bench", "cache cold"):
        assert word in texts
    assert "wrong" in texts and "unsupported" in texts  # the marks of rows without a value


def test_the_copy_control_is_a_line_of_pictures_of_speed_and_not_of_ratios(pictures: Path) -> None:
    assert any("copy (control)" in text for text in picture_words(pictures / "planted_gbps.svg"))
    assert not any("copy (control)" in text for text in picture_words(pictures / "planted_speedup.svg"))


def test_bars_name_each_case_and_the_value_of_each_provider(pictures: Path) -> None:
    texts = picture_words(pictures / "planted_gbps_bars.svg")
    assert {f"N={n}" for n in SIZES} <= set(texts)
    assert "GB/s" in texts and {"torch", "fast", "even"} <= set(texts)


@pytest.mark.parametrize(("metric", "unit"), [("tflops", "TFLOP/s"), ("sol", "share of the speed of light")])
def test_an_operator_that_counts_its_operations_is_drawn_in_tflops(
    kbench: Kbench, folder: Path, metric: str, unit: str
) -> None:
    where = ("--where", "dtype=bf16,mode=forward", "--format", "svg", "--out", ".")
    ended = kbench("plot", H200 / "matmul.csv", *where, "--metric", metric)
    assert all(any(unit in text for text in picture_words(path)) for path in drawn(ended, folder))


def test_several_files_share_a_picture_with_their_labels(kbench: Kbench, folder: Path, results: Path) -> None:
    other = write_planted(folder / "other.csv")
    options = ("--where", "provider=torch,fast", "--format", "svg")
    texts = words(kbench("plot", f"before={results}", f"after={other}", *options), folder)
    assert {"before", "after", "torch", "fast"} <= set(texts) and not {"even", "picky"} & set(texts)


def test_by_makes_a_panel_for_each_value(kbench: Kbench, folder: Path) -> None:
    rows = [
        each
        for dtype in ("float16", "float32")
        for n in SIZES
        for each in case(n, {"torch": n, "fast": n / 2}, {}, dtype=dtype)
    ]
    path = write_results(folder / "dtypes.csv", rows)
    texts = words(kbench("plot", path, "--by", "dtype", "--format", "svg"), folder)
    assert {"float16", "float32"} <= set(texts)


def test_the_sizes_that_fit_into_the_cache_are_named_unless_all_do(kbench: Kbench, folder: Path, results: Path) -> None:
    def cache(device_type: str, mebibytes: int) -> list[str]:
        environment = {"device_type": device_type, "cache_bytes": mebibytes * 2**20}
        results.with_suffix(".env.json").write_text(json.dumps(environment))
        texts = words(kbench("plot", results, "--format", "svg"), folder)
        return [text for text in texts if text.startswith("fits in")]

    assert cache("cuda", 20) == ["fits in L2 (20 MiB)"]
    assert cache("cpu", 480) == []


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_names_are_drawn_as_they_are_and_that_of_a_file_is_cut(kbench: Kbench, folder: Path, kind: str) -> None:
    names = ("a<b>&c", "$x^2$", "a$^$b", "_mine", "--help", "多")
    rows = [each for n in SIZES for each in case(n, dict.fromkeys(names, float(n)), {})]
    path = write_results(folder / f"{'names' * 49}.csv", rows)  # no file has a name of 256 characters
    [picture] = drawn(kbench("plot", path, "--kind", kind, "--format", "svg"), folder)
    ElementTree.parse(picture)
    assert {"$x^2$", "a$^$b", "_mine"} <= set(picture_words(picture))


# -- who is fastest


def counts_of_show(out: str) -> dict[str, tuple[int, int]]:
    """In how many cases each provider is the fastest and tied for it, as `kbench show` prints."""
    head, *lines = out[out.index("provider ") :].split("\n\n")[0].splitlines()
    # the columns "vs BASELINE" and "of copy" have a space in their names, and their cells have none
    names = re.sub(r"(vs|of) ", r"\1-", head).split()
    rows = [dict(zip(names, line.split(), strict=True)) for line in lines]
    return {each["provider"]: (int(each["fastest"]), int(each["tied"])) for each in rows}


def counts_of_map(texts: list[str]) -> dict[str, tuple[int, int]]:
    """The same from the legend of a heat map: `fast 2 + 1 tie`."""
    found = [re.fullmatch(r"(\S+) (\d+)(?: \+ (\d+) ties?)?", text) for text in texts]
    return {entry[1]: (int(entry[2]), int(entry[3] or 0)) for entry in found if entry}


def test_the_heat_map_has_the_winners_and_leads_of_show(kbench: Kbench, pictures: Path, results: Path) -> None:
    texts = picture_words(pictures / "planted_winners.svg")
    assert texts.count("fast") == len(SIZES) and texts.count("~") == 1 and texts.count("?") == 1
    assert "1.60x" in texts and "1.80x" in texts
    assert counts_of_map(texts) == {"fast": (2, 1)} and counts_of_show(kbench("show", results).out)["fast"] == (2, 1)
    assert any(f"at most {NOISE}" in text for text in texts)


# -- in the terminal


def of_providers(text: str, *, place: int) -> dict[str, list[str]]:
    """The words of the lines of a chart that have a provider's name at this place, by this name. The first of them."""
    lines = [line.split() for line in text.splitlines()]
    names = ("torch", "fast", "even", "picky", "broken")
    return {words[place]: words for words in reversed(lines) if len(words) > place and words[place] in names}


@pytest.fixture
def printed(kbench: Kbench, folder: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `kbench plot --term` prints for the planted results, in lines of 80 characters. It writes no file."""
    monkeypatch.setenv("COLUMNS", "80")

    def printed(*options: str) -> str:
        before = sorted(folder.rglob("*"))
        ended = kbench("plot", results, "--term", *options)
        assert ended.code == 0, ended.err
        assert sorted(folder.rglob("*")) == before and "\x1b" not in ended.out
        assert max(map(len, ended.out.splitlines())) <= 80
        return ended.out

    return printed


def test_term_prints_a_chart_with_the_letter_last_value_and_failures_of_each_provider(
    printed: Callable[..., str],
) -> None:
    text = printed("--metric", "ms")
    names = of_providers(text, place=1)
    chart, _, _ = text.partition("provider")
    assert {name: words[2] for name, words in names.items()} == {
        "torch": "2048", "picky": "1638", "even": "1039", "fast": "1024", "broken": "-"
    }  # fmt: skip
    assert "time" in chart and "256" in chart and "1K" in chart
    rows_of_letters = {name: [line for line in chart.splitlines() if words[0] in line] for name, words in names.items()}
    assert rows_of_letters["torch"] and not rows_of_letters["broken"]
    assert "wrong" in names["broken"] and "N=256" in names["picky"]


def test_term_prints_bars_as_long_as_their_values(printed: Callable[..., str]) -> None:
    names = of_providers(printed("--kind", "bars", "--metric", "speedup", "--where", "N=256"), place=0)
    assert names["fast"][1] == "2" and len(names["fast"][2]) == 2 * len(names["torch"][2])
    assert names["broken"][1:] == ["wrong"] and names["picky"][1:] == ["unsupported"]


def test_a_provider_that_is_wrong_in_one_session_has_no_value(kbench: Kbench, folder: Path) -> None:
    rows = [{"provider": name, "ms": 0.1, "gbps": 300} for name in ("mine", "other")]
    rows.append({"provider": "mine", "session": 1, "status": "wrong", "reason": "one NaN"})
    out = kbench("plot", write_results(folder / "mixed.csv", rows), "--term", "--kind", "bars").out
    assert re.search(r"^mine +wrong *$", out, re.MULTILINE) and re.search(r"^other +300 ", out, re.MULTILINE)


def test_term_prints_the_fastest_provider_of_each_case(printed: Callable[..., str]) -> None:
    text = printed("--kind", "heatmap")
    lines = [line.split() for line in text.splitlines()]
    letter = of_providers(text, place=1)["fast"][0]
    cases = {int(words[0]): words[1:] for words in lines if words and words[0] in map(str, SIZES)}
    assert cases == {256: [letter, "1.80x"], 512: [letter, "1.60x"], 1024: [letter, "~"], 2048: [letter, "?"]}


@pytest.mark.parametrize("options", [("--out", "new"), ("--kind", "change")])
def test_term_refuses_what_it_cannot_do(kbench: Kbench, folder: Path, results: Path, options: tuple[str, str]) -> None:
    ended = kbench("plot", results, "--term", *options)
    assert ended.code == 2 and "--term" in ended.err and options[0] in ended.err
    assert not (folder / "new").exists()


# -- changes


def test_a_picture_of_changes_has_the_verdicts_of_compare(kbench: Kbench, folder: Path) -> None:
    two = write_slower(folder)
    lines = kbench("compare", *two).out.splitlines()
    [counts] = [line.split(", ") for line in lines if re.fullmatch(r"\d+ [a-z]+(, \d+ [a-z]+)*", line)]
    assert "4 slower" in counts
    assert set(counts) <= set(words(kbench("plot", *two, "--kind", "change", "--format", "svg"), folder))


def test_changes_without_a_sweep_are_a_list_with_the_slowest_first(kbench: Kbench, folder: Path) -> None:
    for name, factors in {"old": (1.0, 1.0, 1.0), "new": (1.0, 0.8, 1.2)}.items():
        write_sessions(
            folder / f"{name}.csv", {provider: {1024: ms} for provider, ms in zip("abc", factors, strict=True)}
        )
    for metric in ("gbps", "ms"):
        options = ("--kind", "change", "--metric", metric, "--format", "svg")
        drawn = words(kbench("plot", "old.csv", "new.csv", *options), folder)
        assert [text for text in drawn if text in ("a", "b", "c")] == ["c", "a", "b"], metric
    assert [text[:11] for text in drawn if text.startswith(("slower  ", "faster  \N{MINUS SIGN}"))] == [
        "slower  +20",
        "faster  \N{MINUS SIGN}20",
    ]


# -- mistakes


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("--metric", "joules", "gbps, ms, speedup, copy_fraction, tflops, sol, ulp"),
        ("--kind", "pie", "lines, bars, heatmap, change"),
        ("--format", "gif", "png, svg, pdf"),
        ("--format", "", "png, svg, pdf"),
        ("--out", "x.png", "kbench names the pictures"),
        ("--theme", "blue", "light, dark"),
        ("--x", "K", "M, N"),
        ("--by", "K", "unknown column"),
        ("--by", "N", "cannot divide the rows into panels; choose from"),
    ],
)
def test_an_unknown_choice_is_named_with_the_choices(
    kbench: Kbench, folder: Path, results: Path, option: str, value: str, choices: str
) -> None:
    for options in [(), ("--kind", "heatmap")] if option != "--kind" else [()]:
        ended = kbench("plot", results, option, value, *options)
        assert ended.code == 2 and option in ended.err and value in ended.err and choices in ended.err
    assert not list(folder.glob("*.png"))


def test_where_there_is_nothing_to_draw_the_error_says_why(kbench: Kbench, results: Path) -> None:
    for options, why in {
        ("--metric", "tflops"): "no row has tflops",
        ("--where", "provider=broken"): "4 wrong",
    }.items():
        ended = kbench("plot", results, *options)
        assert ended.code == 2 and ended.err.startswith("error: ") and why in ended.err and ended.out == ""
