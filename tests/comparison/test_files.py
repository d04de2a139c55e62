"""The files that hold a whole comparison: JSON and its schema, and CSV."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pandas as pd
from making import Write

from kbench.comparison import json_report
from kbench.comparison.compare import compare_results
from kbench.comparison.formats import FORMATS
from kbench.comparison.model import Comparison

SCHEMA = Path(__file__).parents[2] / "docs" / "compare.schema.json"


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


def test_nasty_text_comes_back_from_json(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    first = report(comparison)["rows"][0]
    if text.isprintable():
        assert first["reason"] == first["key"]["provider"] == first["contender"] == text


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
