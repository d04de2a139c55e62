"""The files that hold a whole comparison: JSON and its schema, and CSV."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
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


def test_csv_of_no_rows_has_a_header(write: Write) -> None:
    path = write("a", [])
    assert FORMATS["csv"](compare_results(path, path)).splitlines()[0].startswith("operator,provider,params,dtype,")
