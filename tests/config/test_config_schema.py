"""The JSON Schema of configs."""

from __future__ import annotations

import pytest
from sample_configs import SOFTMAX, minimal

from kbench.config.document import parse
from kbench.config.schema import check
from kbench.config.schema import schema as config_schema


def documents() -> list[tuple[str, bool]]:
    """Configs, and whether their structure is right."""
    return [
        (SOFTMAX, True),
        (minimal("[{M: 1, N: {pow2: [1, 2]}}]"), True),
        (minimal("{M: 1, N: {pow2: [1]}}"), False),
        (minimal("{M: 1, N: 2, causal: [true, false], eps: [0, 1e-6], mode: full}"), True),
        (minimal("{M: 1, N: []}"), False),
        (minimal("{M: 1, N: 2, dtype: int3}"), False),
        (minimal(providers="[]"), False),
        (minimal(providers="[{triton: {}, cuda: {}}]"), False),
        (minimal(providers="[{triton: {a: [1, null, true, b, 2.5]}}]"), True),
        (minimal(rest="measure: {rounds: 0}"), False),
        (minimal(rest="mesure: {}"), False),
        (minimal(rest="profiles: {a: {operator: softmax}}"), False),
        (minimal(rest="profiles: {a: {measure: {rounds: 1}}}"), True),
        ("operator: softmax\n", False),
    ]


@pytest.mark.parametrize(("text", "right"), documents())
def test_the_schema_judges_structure_as_kbench_does(text: str, right: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    document = parse(text, "x.yaml")
    validator = jsonschema.Draft202012Validator(config_schema())
    validator.check_schema(config_schema())
    assert validator.is_valid(document.plain) == right
    if "int3" not in text:  # kbench asks the catalog which dtypes there are
        assert (check(document) == []) == right
