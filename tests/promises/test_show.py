"""`kbench show`: the fastest provider of each case, and all times."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from promises.outside import ROOT, Kbench, lines_with, providers_of, write_results
from promises.planted import NOISE, REASON, SIZES, case, lost, planted, row, write_planted

H200 = ROOT / "results" / "h200"


@pytest.fixture
def results(folder: Path) -> Path:
    """The planted results."""
    return write_planted(folder / "planted.csv")


def cells(out: str, first: str) -> list[str]:
    """The cells of the first line of a table that begins with this word."""
    return next(line.split() for line in out.splitlines() if line.split()[:1] == [first])


# -- what it prints


def test_the_first_sentence_names_the_fastest_provider_and_its_speed_up(kbench: Kbench, results: Path) -> None:
    ended = kbench("show", results)
    assert ended.code == 0, ended.err
    headline = ended.out.strip().splitlines()[0]
    for words in ("fast is fastest in 2 of 4 cases", "tied in 1 more", "1 case unclear", "2.00x as fast as torch"):
        assert words in headline
    assert f"at most {NOISE}" in ended.out, "the noise floor: how far two timings of the baseline differ"


def test_the_first_sentence_says_how_often_the_fastest_is_wrong(kbench: Kbench, folder: Path) -> None:
    rows = []
    for mode, us in {"forward": 4.0, "backward": 20.0}.items():
        rows += case(256, {"torch": 10.0, "mixed": us, "even": 15.0}, {}, mode=mode)
        rows += [*case(1001, {"torch": 10.0}, {}, mode=mode), lost("mixed", 1001, "wrong", f"{mode} is off", mode=mode)]
    out = kbench("show", write_results(folder / "modes.csv", rows)).out
    assert out.strip().startswith("mixed is wrong in 2 of 4 cases")
    assert "mode=forward 2.50x, mode=backward 0.50x as fast as torch" in out
    assert re.search(r"^even +0.67x +0.67x +0.67x ", out, re.MULTILINE)
    assert re.search(r"mixed: wrong .*all at N=1001\).*column reason", out)


def test_every_provider_has_a_line_with_its_speed_up_and_its_record(kbench: Kbench, results: Path) -> None:
    out = kbench("show", results).out
    for name, speed_up, record in (("fast", "2.00x", "4/0/0"), ("picky", "1.25x", "3/0/0"), ("torch", "baseline", "-")):
        assert re.search(rf"^{name} +{re.escape(speed_up)} +{record} ", out, re.MULTILINE)


def test_every_case_has_the_time_of_every_provider_in_microseconds(kbench: Kbench, results: Path) -> None:
    out = kbench("show", results).out
    names = cells(out, "N")[1:]
    measured = {(each["N"], each["provider"]): each["ms"] for each in providers_of(results)}
    for n in SIZES:
        shown = dict(zip(names, cells(out, str(n))[1:], strict=True))
        for name, text in shown.items():
            ms = measured.get((str(n), name), "")
            assert float(text.rstrip("*~?")) == pytest.approx(float(ms) * 1e3, rel=1e-3) if ms else text == "-"


def test_marks_tell_the_fastest_a_tie_and_what_cannot_be_told(kbench: Kbench, results: Path) -> None:
    out = kbench("show", results).out
    marks = {n: "".join(re.findall(r"[*~?]", " ".join(cells(out, str(n))))) for n in SIZES}
    assert marks == {256: "*", 512: "*", 1024: "~~", 2048: "??"}
    assert "* fastest" in out and "~ tie" in out and "? unclear" in out


def test_rows_without_a_time_are_listed_with_their_reason_and_details_has_a_line_for_each_case(
    kbench: Kbench, results: Path
) -> None:
    out = kbench("show", results).out
    assert re.search(rf"broken: wrong \(4 cases\): {REASON}", out)
    assert "picky: unsupported (1 case): N is too small" in out
    short, long = (kbench("show", results, *options).out for options in ((), ("--details",)))
    added = long.replace(short, "")
    assert "GB/s" in added and "of copy" in added and "GB/s" not in short
    assert "fast ~ even" in added and "fast ? even" in added


def test_axes_of_words_are_left_aligned_and_sizes_right_aligned(kbench: Kbench, folder: Path) -> None:
    rows = [
        row(name, us, N=n, mode=mode)
        for name, us in (("a", 1.0), ("b", 2.0))
        for n, mode in ((8, "full"), (16, "forward"))
    ]
    out = kbench("show", write_results(folder / "modes.csv", rows)).out
    assert re.search(r"^ 8 +full  ", out, re.MULTILINE) and re.search(r"^16 +forward  ", out, re.MULTILINE)
    column = {line.index(word) for line in out.splitlines() for word in ("full", "forward") if f" {word} " in line}
    assert len(column) == 1


def test_a_machine_that_is_too_noisy_ranks_no_provider(kbench: Kbench, folder: Path) -> None:
    rows = [
        {**each, "ms": 2.6 * float(str(each["ms"])), "round_ms": ""} if each["provider"] == "repeat" else each
        for each in planted()
    ]
    path = write_results(folder / "noisy.csv", rows)
    out = kbench("show", path).out
    assert "too noisy to rank providers" in out and not re.search(r"\d[*~]", out)
    kbench("report", path)
    page = (folder / "report.html").read_text()
    assert "too noisy to rank providers" in page and "Speed-ups are relative" not in page


def test_of_several_sessions_the_median_counts_and_the_table_says_so(kbench: Kbench, folder: Path) -> None:
    rows = [row("torch", us, N=256, session=session, round_ms="") for session, us in enumerate((100.0, 300.0, 110.0))]
    out = kbench("show", write_results(folder / "sessions.csv", rows)).out
    assert "110.0" in out and "median of 3 sessions" in out


@pytest.mark.parametrize("name", ["matmul", "gelu-providers"])
def test_committed_results_are_shown_without_a_warning(kbench: Kbench, name: str) -> None:
    ended = kbench("show", H200 / f"{name}.csv")
    assert ended.code == 0 and "warning" not in ended.err


def test_the_stages_of_the_ladder_are_shown(kbench: Kbench) -> None:
    path = H200 / "softmax-ladder.csv"
    shown = kbench("show", path).out
    for kernel in providers_of(path):
        [line] = lines_with(shown, kernel["provider"], kernel["N"])
        assert all(f"{float(kernel[f'{stage}_ms']):.3f}" in line for stage in ("alloc", "h2d", "kernel", "d2h"))


def test_a_summary_that_names_no_fastest_says_how_to_measure_more(kbench: Kbench, folder: Path) -> None:
    rows = [
        {"provider": "torch-native", "ms": 1.0, "round_ms": "1.0;1.3;0.9", "speedup": 1},
        {"provider": "mine", "ms": 1.1, "round_ms": "1.1;0.95;1.2", "speedup": 1},
        {"provider": "repeat", "ms": 1.02, "round_ms": "1.02;1.28;0.93", "speedup": 1, "role": "control"},
    ]
    ended = kbench("show", write_results(folder / "unclear.csv", [each | {"gbps": 10} for each in rows]))
    assert ended.code == 0 and "kbench run CONFIG --append --sessions 2" in ended.out
    assert "0.91x?" in ended.out  # an unclear ratio is marked
    suspect = [row | {"flags": "suspect", "reason": "too many bytes"} for row in rows]
    assert "too many bytes" in kbench("show", write_results(folder / "suspect.csv", suspect)).out


# -- the unit of speed: FLOP/s if arithmetic bounds an operator, GB/s if memory does

CEILINGS = {"ceiling_gbps": 1000, "ceiling_tflops": 700, "copy_fraction": 0.8, "sol": 0.5}


@pytest.mark.parametrize(
    ("measured", "unit", "picture"),
    [
        ({"operator": "rope", "gbps": 0.019, "tflops": 0.000005}, "GB/s", "gbps"),
        ({"operator": "matmul", "gbps": 400, "tflops": 350}, "TFLOP/s", "tflops"),
        ({"operator": "matmul", "gbps": 0.1, "tflops": 0.0174, "ceiling_tflops": 0.1}, "GFLOP/s", "tflops"),
    ],
    ids=["memory bounds it", "arithmetic bounds it", "less than a tenth of a teraflop"],
)
def test_the_unit_of_speed_is_that_of_what_bounds_the_operator(
    kbench: Kbench, folder: Path, measured: dict[str, object], unit: str, picture: str
) -> None:
    write_results(folder / "results.csv", [{"provider": "mine", "ms": 1.0, **CEILINGS, **measured}])
    shown = kbench("show", "results.csv", "--details").out
    assert {name for name in ("TFLOP/s", "GFLOP/s") if name in shown} == {unit} - {"GB/s"}
    assert unit in shown and (unit != "GB/s" or "0.019" in shown)
    assert unit == "GB/s" or kbench("explain", f"best {unit}").code == 0
    assert kbench("plot", "results.csv", "--format", "svg").out.strip().endswith(f"results_{picture}.svg")


# -- which file, and which rows


def test_without_a_file_the_newest_in_results_is_shown(kbench: Kbench, folder: Path) -> None:
    for name, age_s in (("old", 100), ("new", 0), ("older", 200)):
        path = write_planted(folder / "results" / f"{name}.csv")
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age_s))
    assert kbench("show").out.rstrip().splitlines()[-1].endswith("results/new.csv")
    assert kbench("compare", "results/old.csv", "results/new.csv", "--export", "csv=results/compared.csv").code == 0
    assert kbench("show").out.rstrip().splitlines()[-1].endswith("results/new.csv")


@pytest.mark.parametrize(
    ("terms", "left"),
    [
        ("N=256,512", {256, 512}),
        ("N>=1k", {1024, 2048}),
        ("dtype=fp32,N<=512", {256, 512}),
    ],
)
def test_where_uses_only_the_rows_that_match(kbench: Kbench, results: Path, terms: str, left: set[int]) -> None:
    out = kbench("show", results, "--where", terms).out
    assert {int(n) for n in re.findall(r"^ *(\d+) +\d", out, re.MULTILINE)} == left


def test_where_leaves_the_noise_floor_as_it_is(kbench: Kbench, folder: Path) -> None:
    rows = [{**each, "speedup": ""} if each["provider"] == "repeat" else each for each in planted()]
    out = kbench("show", write_results(folder / "planted.csv", rows), "--where", "provider=fast").out
    assert f"at most {NOISE}" in out and "torch " not in out


# -- mistakes


def test_a_wrong_cell_is_named_with_line_and_column(kbench: Kbench, results: Path) -> None:
    lines = results.read_text().splitlines()
    lines[2] = lines[2].replace(",256,", ",many,", 1)
    results.write_text("\n".join(lines) + "\n")
    ended = kbench("show", results)
    assert ended.code == 2 and "planted.csv:3" in ended.err and "N" in ended.err and "many" in ended.err
    results.write_text("\n".join(lines).replace(",", ";"))  # as a spreadsheet saves it in many countries
    ended = kbench("show", results)
    assert ended.code == 2 and "planted.csv:1" in ended.err and "commas" in ended.err


@pytest.mark.parametrize(
    ("terms", "named", "choices"), [("K=3", '"K"', "M, N"), ("provider=fst", "fst", "broken, even, fast, picky")]
)
def test_an_unknown_column_or_value_in_where_is_named_with_the_choices(
    kbench: Kbench, results: Path, terms: str, named: str, choices: str
) -> None:
    ended = kbench("show", results, "--where", terms)
    assert ended.code == 2 and named in ended.err and choices in ended.err


def test_an_incomplete_last_row_is_left_out_with_a_warning(kbench: Kbench, results: Path) -> None:
    """A run was killed while it wrote."""
    results.write_text(results.read_text() + "softmax,late,,4096")
    ended = kbench("show", results)
    assert ended.code == 0 and "fast is fastest" in ended.out and "late" not in ended.out
    assert re.search(r"planted\.csv:\d+: the last row is incomplete", ended.err)
