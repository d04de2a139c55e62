"""The files that hold a whole comparison: JSON and its schema, and CSV."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from making import Write, row

from kbench.comparison.compare import compare_results
from kbench.comparison.exports import csv_text
from kbench.comparison.model import Comparison, schema

SCHEMA = Path(__file__).parents[2] / "docs" / "compare.schema.json"


def test_the_published_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "write it anew: kbench schema compare"
    jsonschema.Draft202012Validator.check_schema(schema())


def test_nasty_text_comes_back_from_json(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    document = json.loads(comparison.json())
    jsonschema.Draft202012Validator(schema()).validate(document)
    first = document["rows"][0]
    if text.isprintable():
        assert first["reason"] == first["key"]["provider"] == document["new"] == text


def test_an_axis_called_as_a_column_keeps_its_values(write: Write) -> None:
    path = write("a", [row()])
    path.write_text(path.read_text().replace(",M,", ",q,", 1))
    assert ",axis_q," in csv_text(compare_results(path, path)).splitlines()[0]
