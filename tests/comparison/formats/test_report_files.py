"""The files that hold a whole comparison: JSON and its schema, CSV, JUnit XML."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
from making import Write

from kbench.comparison.compare import compare_results
from kbench.comparison.formats import FORMATS, json_report
from kbench.comparison.model import Comparison
from kbench.comparison.verdict import Verdict

SCHEMA = Path(__file__).parents[3] / "docs" / "compare.schema.json"


def report(comparison: Comparison) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found = json.loads(FORMATS["json"](comparison), parse_constant=refuse)
    jsonschema.Draft202012Validator(json_report.schema()).validate(found)
    return found


# ---- JSON


def test_the_published_schema_is_the_codes() -> None:
    assert json.loads(SCHEMA.read_text()) == json_report.schema(), "write it anew: kbench schema compare"
    jsonschema.Draft202012Validator.check_schema(json_report.schema())


def test_the_report_says_what_was_compared_and_how_it_came_out(every: Comparison) -> None:
    found = report(every)
    assert found["schema"] == "kbench.compare/1"
    assert (found["baseline"], found["contenders"]) == ("main", ["pr 7"])
    assert found["summary"] == dict.fromkeys(Verdict, 1) | {"same": 10}
    assert found["settings"] == {
        "metric": "ms", "better": "less", "margin": 0.02, "error_rate": 0.01, "confidence": 0.95, "vary": ["torch"],
    }  # fmt: skip
    [mean], [drift] = found["geomeans"], found["drifts"]
    assert (mean["rows"], mean["total"]) == (13, 20) and mean["ci"][0] < mean["ratio"] < mean["ci"][1]
    assert drift["cases"] == 10 and drift["taken_out"] is True and drift["ratio"] == pytest.approx(1)
    assert found["differences"][0] == {
        "contender": "pr 7", "name": "cache", "old": "cold", "new": "cold/warm", "weight": "refuse",
    }  # fmt: skip


def test_a_row_has_its_key_verdict_and_both_sides(every: Comparison) -> None:
    rows = report(every)["rows"]
    slower, failed = rows[:2]
    assert slower["key"] == {
        "operator": "softmax", "provider": "triton", "params": "", "M": 4096, "N": 1, "dtype": "float32",
    }  # fmt: skip
    assert (slower["verdict"], slower["reason"]) == ("slower", "")
    assert slower["ci"][0] < slower["ratio"] < slower["ci"][1] and 0 < slower["q"] < 0.01
    old = {"status": "ok", "value": pytest.approx(0.03143, rel=1e-3), "sessions": 3, "timed": 3, "kernels": []}
    assert slower["old"] == old and slower["code"] is None
    assert (failed["ratio"], failed["ci"], failed["q"]) == (None, None, None)
    assert failed["new"] == {"status": "wrong", "value": None, "sessions": 3, "timed": 0, "kernels": []}
    assert rows[2]["verdict"] == "missing" and rows[2]["new"] is None


def test_what_is_no_number_is_null(every: Comparison) -> None:
    odd = [replace(every.rows[0], ratio=math.inf, ci=(math.nan, 1.0), q=math.nan)]
    [only] = report(replace(every, rows=tuple(odd)))["rows"]
    assert (only["ratio"], only["ci"], only["q"]) == (None, None, None)
    assert "nan" not in FORMATS["csv"](replace(every, rows=tuple(odd))).lower()


def test_nasty_text_comes_back_from_json(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    first = report(comparison)["rows"][0]
    if text.isprintable():
        assert first["reason"] == first["key"]["provider"] == first["contender"] == text


@pytest.mark.slow
def test_ten_thousand_rows(big: Comparison) -> None:
    assert len(json.loads(FORMATS["json"](big))["rows"]) == len(FORMATS["csv"](big).splitlines()) - 1 == 10_000


# ---- CSV


def test_csv_is_the_same_rows_for_pandas(every: Comparison) -> None:
    frame = pd.read_csv(io.StringIO(FORMATS["csv"](every)), keep_default_na=False, na_values={"ratio": ""})
    assert list(frame["verdict"]) == [verdict.verdict for verdict in every.rows]
    assert list(frame.columns[:6]) == ["operator", "provider", "params", "M", "N", "dtype"]
    assert frame["ratio"][0] == every.rows[0].ratio  # to the last digit
    assert frame["ratio"].isna().sum() == 7
    assert set(frame["baseline"]) == {"main"} and set(frame["contender"]) == {"pr 7"} and set(frame["metric"]) == {"ms"}
    assert list(frame["new_sessions"][:3]) == [3, 3, 0]


def test_csv_of_no_rows_has_a_header(write: Write) -> None:
    path = write("a", [])
    assert FORMATS["csv"](compare_results(path, path)).splitlines()[0].startswith("operator,provider,params,dtype,")


# ---- JUnit
