"""What other tools read, checked against their documentation: github-action-benchmark, Bencher, benchstat."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace

import jsonschema
import pytest
from making import Write, row

from kbench.comparison.compare import compare_results
from kbench.comparison.formats import FORMATS
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions

MEASURED = ["slower", "faster", "fixed", "new", "incomparable", "unclear", "same"]
"""Verdicts whose contender has a time that can be."""


# ---- github-action-benchmark


ENTRIES = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "unit", "value"],
        "properties": {
            "name": {"type": "string"},
            "unit": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
        "additionalProperties": False,
    },
}
"""As its README documents the input of `customBiggerIsBetter`: name, unit and value, and optionally range and extra."""


def entries(comparison: Comparison) -> list[dict]:
    found = json.loads(FORMATS["github-action-benchmark"](comparison))
    jsonschema.validate(found, ENTRIES)
    return found


def test_the_action_gets_the_contenders_speeds(every: Comparison) -> None:
    found = entries(every)
    assert len(found) == sum(every.counts[word] for word in MEASURED) == 16
    assert found[0]["name"] == "softmax M=4096 N=1 float32 triton" and found[0]["unit"] == "GB/s"
    assert found[0]["value"] == pytest.approx(100 / 0.03303, rel=1e-3)
    assert found[0]["extra"].startswith("33.03 us\nslower: time +5.1%")


def test_its_range_is_a_number_that_the_action_can_read(every: Comparison) -> None:
    for entry in entries(every):
        sign, number = re.fullmatch(r"((?:\+-|±)\s*)(\d.+)", entry["range"]).groups()
        assert sign == "± " and float(number) >= 0
    assert float(entries(every)[0]["range"][2:]) == pytest.approx((100 / 0.0330 - 100 / 0.0331) / 2, abs=1e-4)


def test_rows_without_a_speed_are_left_out(write: Write) -> None:
    path = write("a", [row(1), row(2, gbps=100.0), row(3, gbps=float("inf")), row(4, gbps=0.0), row(5, gbps=-1.0)])
    assert [entry["name"] for entry in entries(compare_results(path, path))] == ["softmax M=4096 N=2 float32 triton"]


# ---- Bencher


BMF = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                }
            },
        }
    },
}
"""Bencher Metric Format, after https://bencher.dev/docs/reference/bencher-metric-format."""


def metrics(comparison: Comparison) -> dict[str, dict]:
    found = json.loads(FORMATS["bencher"](comparison))
    jsonschema.validate(found, BMF)
    assert all(0 < len(name) <= 1024 for name in found)
    return found


def test_bencher_gets_nanoseconds_and_speeds(every: Comparison) -> None:
    found = metrics(every)["softmax M=4096 N=1 float32 triton"]
    assert found["latency"]["value"] == pytest.approx(33_033, rel=1e-4)
    assert (found["latency"]["lower_value"], found["latency"]["upper_value"]) == (
        pytest.approx(33_000),
        pytest.approx(33_100),
    )
    assert found["gbps"]["lower_value"] <= found["gbps"]["value"] <= found["gbps"]["upper_value"]


def test_with_one_session_the_rounds_give_the_bounds(write: Write) -> None:
    path = write("a", [row(ms=1.0, round_ms=(0.9, 1.0, 1.2), gbps=10.0)])
    [found] = metrics(compare_results(path, path)).values()
    assert found["latency"] == {"value": pytest.approx(1e6), "lower_value": 0.9e6, "upper_value": 1.2e6}
    assert found["gbps"] == {
        "value": pytest.approx(10), "lower_value": pytest.approx(10 / 1.2), "upper_value": pytest.approx(10 / 0.9),
    }  # fmt: skip


def test_names_that_are_too_long_stay_apart(write: Write) -> None:
    rows = [row(provider="x" * 1100 + end) for end in "ab"]
    path = write("a", rows)
    assert len(metrics(compare_results(path, path))) == 2


@pytest.mark.parametrize("name", ["bencher", "github-action-benchmark"])
def test_contenders_and_providers_have_names_of_their_own(write: Write, name: str) -> None:
    old, b, c = (write(label, [row(gbps=1.0)]) for label in "abc")
    text = FORMATS[name](compare_results(f"a={old}", f"b={b}", f"c={c}"))
    assert "softmax M=4096 N=256 float32 triton (b)" in text and "triton (c)" in text
    path = write("d", [row(provider=label, gbps=1.0) for label in ("base", "x", "y")])
    text = FORMATS[name](compare_results(path, options=CompareOptions(by="provider", baseline="base")))
    assert "softmax M=4096 N=256 float32 x" in text and "float32 y" in text


def test_what_no_memory_can_deliver_makes_no_history(every: Comparison) -> None:
    assert not [name for name in metrics(every) if "N=4 " in name]
    assert not [entry for entry in entries(every) if "N=4 " in entry["name"]]


@pytest.mark.parametrize("ms", [5e-324, 1e-300, 1e300, 1.7e308])
def test_numbers_beyond_what_can_be_are_still_json(every: Comparison, ms: float) -> None:
    first = every.rows[0]
    assert first.new
    readings = tuple(replace(reading, ms=ms, gbps=1e300) for reading in first.new.readings)
    for sessions in (readings, readings[:1]):  # the rounds of one session stay as they were
        odd = replace(every, rows=(replace(first, new=replace(first.new, readings=sessions)), *every.rows[1:]))
        assert len(metrics(odd)) >= 15 and len(entries(odd)) >= 15
        assert len(Benchfmt.read(FORMATS["benchfmt"](odd)).results) > 90


def test_nasty_names_are_json(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    assert len(metrics(comparison)) == len(entries(comparison)) == 16
    if text.isprintable():
        assert all(text in name for name in metrics(comparison))


# ---- benchstat


@dataclass
class Benchfmt:
    """A reader of the Go benchmark format, after https://golang.org/design/14313-benchmark-format and x/perf/benchfmt."""

    units: dict[tuple[str, str], str] = field(default_factory=dict)
    results: list[tuple[dict[str, str], str, int, dict[str, float]]] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> Benchfmt:
        found, configuration = cls(), {}
        for line in text.split("\n"):
            assert len(line.encode()) < 64 * 1024  # the reader's buffer
            if line.startswith("Benchmark"):
                found.results.append((dict(configuration), *cls._result(line.removeprefix("Benchmark"))))
            elif line.split()[:1] == ["Unit"]:
                _, unit, *pairs = line.split()
                for pair in pairs:
                    key, sign, value = pair.partition("=")
                    assert key and sign
                    assert found.units.setdefault((unit, key), value) == value
            elif match := re.fullmatch(r"([^\sA-Z:]+):(?:[ \t]+(.*))?", line):
                assert match[1][0].islower()
                configuration[match[1]] = match[2] or ""
            else:
                assert not line or line.startswith("#"), f"a line that benchstat would ignore: {line}"
        return found

    @staticmethod
    def _result(line: str) -> tuple[str, int, dict[str, float]]:
        name, iterations, *measured = line.split()
        assert name and int(iterations) > 0 and measured and len(measured) % 2 == 0
        return (
            name,
            int(iterations),
            {unit: float(value) for value, unit in zip(measured[::2], measured[1::2], strict=True)},
        )

    @staticmethod
    def parts(name: str) -> dict[str, str]:
        """The configuration in a name; a number after a dash at its end would be a count of processors."""
        assert not re.search(r"-\d+$", name)
        _, *parts = name.split("/")
        return dict(part.split("=", 1) for part in parts)

    def columns(self) -> dict[str, dict[str, list[dict[str, float]]]]:
        """What `benchstat -col label` puts into the cells of each column."""
        cells: dict[str, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
        for configuration, name, _, values in self.results:
            cells[configuration["label"]][name].append(values)
        return cells


def test_benchstat_finds_both_sides_with_a_line_per_session(every: Comparison) -> None:
    read = Benchfmt.read(FORMATS["benchfmt"](every))
    columns = read.columns()
    assert list(columns) == ["main", "pr 7"]
    assert FORMATS["benchfmt"](every).startswith("# Read with: benchstat -col label FILE\n")
    name = "Softmax/provider=triton/M=4096/N=1/dtype=float32"
    assert Benchfmt.parts(name) == {"provider": "triton", "M": "4096", "N": "1", "dtype": "float32"}
    assert [values["ns/op"] for values in columns["main"][name]] == [31400, 31500, 31400]
    assert [values["GB/s"] for values in columns["pr 7"][name]] == pytest.approx(
        [100 / 0.0330, 100 / 0.0331, 100 / 0.0330]
    )
    assert read.units == {("ns/op", "better"): "lower", ("GB/s", "better"): "higher"}
    assert {iterations for _, _, iterations, _ in read.results} == {200}
    assert {key for configuration, *_ in read.results for key in configuration} == {
        "label"
    }  # others would split tables


def test_another_metric_is_a_unit_of_its_own(write: Write) -> None:
    path = write("a", [row(gbps=10.0, copy_fraction=0.9)])
    read = Benchfmt.read(
        FORMATS["benchfmt"](compare_results(path, path, options=CompareOptions(metric="copy_fraction")))
    )
    assert read.units["copy_fraction", "better"] == "higher"
    assert read.results[0][3] == {"ns/op": 1e6, "GB/s": 10, "copy_fraction": 0.9}


def test_the_baseline_is_there_once_for_several_contenders(write: Write) -> None:
    old, b, c = (write(label, [row()]) for label in "abc")
    read = Benchfmt.read(FORMATS["benchfmt"](compare_results(f"a={old}", f"b={b}", f"c={c}")))
    assert [configuration["label"] for configuration, *_ in read.results] == ["a", "b", "c"]


def test_providers_are_columns(write: Write) -> None:
    path = write("d", [row(provider=label) for label in ("base", "x")])
    columns = Benchfmt.read(
        FORMATS["benchfmt"](compare_results(path, options=CompareOptions(by="provider", baseline="base")))
    ).columns()
    assert {label: list(cells) for label, cells in columns.items()} == {
        label: ["Softmax/M=4096/N=256/dtype=float32"] for label in ("base", "x")
    }


@pytest.mark.parametrize("name", ["a b", "a/b", "k-4", "a\tb", "a%20b", "x" * 300, "内核", "a=b", "\u00a0"])
def test_names_are_one_word_and_stay_apart(every: Comparison, name: str) -> None:
    keys = [replace(verdict.key, provider=name, dtype=name) for verdict in every.rows]
    rows = tuple(replace(verdict, key=key) for verdict, key in zip(every.rows, keys, strict=True))
    read = Benchfmt.read(FORMATS["benchfmt"](replace(every, rows=rows)))
    assert all(len(Benchfmt.parts(found)) == 4 for _, found, *_ in read.results)
    assert len({found for _, found, *_ in read.results}) == 19


def test_nasty_text_makes_no_line_that_is_not_read(nasty: tuple[str, Comparison]) -> None:
    _, comparison = nasty
    sides = [side for verdict in comparison.rows for side in (verdict.old, verdict.new) if side and not side.suspect]
    read = Benchfmt.read(FORMATS["benchfmt"](comparison))
    told = sum(len(side.readings) for side in sides if len(side.readings) == side.sessions)
    assert len(read.results) == told > 90
