"""The format of a config file, as pydantic models. They check the structure of a document and generate its JSON Schema.

The models do not know operators and providers; `kbench/config/resolve.py` looks up those names.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from kbench.config.document import Location, Node
from kbench.contract.models import MODELS
from kbench.errors import ConfigIssue
from kbench.protocol import Measure
from kbench.results.case import DTYPE_ALIASES, ITEMSIZE, Value
from kbench.text.suggest import as_written, candidates, nearest, unknown


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


MAX_SIZE = 2**62
"""The limit of sizes and of integer scalars: tensors count their elements in 64 bits."""

AxisSize = Annotated[int, Field(ge=0, le=MAX_SIZE)]


class Powers(StrictModel):
    """Powers of two: `{pow2: [8, 17]}` is 256, 512, ... 131072."""

    pow2: list[Annotated[int, Field(ge=0, le=62)]] = Field(
        min_length=2, max_length=2, description="The smallest and the largest exponent."
    )

    @model_validator(mode="after")
    def _ascending(self) -> Powers:
        if self.pow2[0] > self.pow2[1]:
            raise ValueError("the smaller exponent first")
        return self


class Range(StrictModel):
    """Evenly spaced sizes: start, start + step, ... up to stop. The stop is included if a step reaches it exactly."""

    start: AxisSize
    stop: AxisSize
    step: Annotated[int, Field(gt=0)]

    @model_validator(mode="after")
    def _ascending(self) -> Range:
        if self.start > self.stop:
            raise ValueError("a stop that is not below start")
        return self


def _shape(value: Any) -> str:
    """The tag of the member of `Points` that fits a value."""
    match value:
        case [*_]:
            return "<values>"
        case {"pow2": _}:
            return "<powers>"
        case {"start": _} | {"stop": _} | {"step": _}:
            return "<range>"
    return "<value>"


_SCALAR = {"type": ["number", "boolean", "string"]}

Points = Annotated[
    Annotated[Any, WithJsonSchema(_SCALAR), Tag("<value>")]
    | Annotated[list[Annotated[Any, WithJsonSchema(_SCALAR)]], Field(min_length=1), Tag("<values>")]
    | Annotated[Powers, Tag("<powers>")]
    | Annotated[Range, Tag("<range>")],
    Discriminator(_shape),
]
"""The values of an axis (integers), of a scalar (numbers or booleans) or of a choice (words). Their types depend on the
operator, so config/resolve.py checks them."""


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


ModelName = Annotated[str, WithJsonSchema({"enum": list(MODELS)})]
ModelNames = Annotated[list[ModelName], Field(min_length=1)]

Dtype = Annotated[str, WithJsonSchema({"enum": [*ITEMSIZE, *DTYPE_ALIASES]})]
Dtypes = Annotated[list[Dtype], Field(min_length=1)]


class Product(BaseModel):
    """A cross product: a mapping with the sizes of every axis of the operator. Keys for its scalars, its choices and `mode` are
    optional."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, Points] = Field(init=False)
    dtype: Annotated[Dtypes, BeforeValidator(_listed, json_schema_input_type=Dtype | Dtypes)] = Field(
        default=["float32"], description="One dtype or several."
    )
    model: Annotated[ModelNames, BeforeValidator(_listed, json_schema_input_type=ModelName | ModelNames)] = Field(
        default=[], description="One model or several. The operator says which of its axes get sizes from a model."
    )


ProductList = Annotated[list[Product], Field(min_length=1)]
Products = Annotated[
    ProductList,
    BeforeValidator(_listed, json_schema_input_type=Product | ProductList),
    Field(description="A cross product, or a list of cross products. Cases that occur twice are measured once."),
]


def _values(value: Any) -> Any:
    values = _listed(value)
    if not values or any(isinstance(v, (list, dict)) for v in values):
        raise ValueError("a value or a list of values")
    return value


Values = Annotated[list[Value], Field(min_length=1)]
Parameters = dict[str, Annotated[Any, BeforeValidator(_values, json_schema_input_type=Value | Values)]]


def _named(value: Any) -> Any:
    if isinstance(value, str):
        return {value: {}}
    if isinstance(value, dict) and len(value) == 1:
        return value
    raise ValueError("a provider's name, or one name with its parameters indented below it")


OneProvider = Annotated[dict[str, Parameters], Field(min_length=1, max_length=1)]
ProviderEntry = Annotated[OneProvider, BeforeValidator(_named, json_schema_input_type=str | OneProvider)]

Providers = Annotated[
    list[ProviderEntry],
    Field(
        min_length=1,
        description="The providers to compare. Parameters with several values give one configuration per combination.",
    ),
]


class Overlay(StrictModel):
    """The keys that a profile may change.

    A key under `sweep` or `measure` replaces the same key of the file; the other keys stay. A list replaces the whole
    list. If the file's sweep is a list, a mapping under `sweep` changes each mapping of that list.
    """

    sweep: Products = Field(default_factory=list)
    providers: Providers = Field(default_factory=list)
    baseline: str = Field(
        default_factory=str,
        description="The provider that speed-ups refer to. If not given: the first provider. When --only "
        "leaves the baseline out, there is no baseline.",
    )
    measure: Measure = Field(default_factory=Measure, description="How each case is measured.")


class File(Overlay):
    """A config: the operator, the cases, the providers, and how to measure them."""

    operator: str = Field(description="The operator to compute, for example softmax.")
    sweep: Products
    providers: Providers
    plugins: list[str] = Field(default_factory=list, description="Python files to import, relative to this file.")
    profiles: dict[str, Overlay] = Field(
        default_factory=dict,
        description="Named replacements for parts of this config. --profile NAME chooses one. Without an accelerator, kbench "
        "applies `cpu` automatically.",
    )


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # pydantic would add the title "Warmup Ms", which says less than the key "warmup_ms"


def schema() -> dict[str, Any]:
    """The file format as JSON Schema (draft 2020-12), for editors."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | File.model_json_schema(schema_generator=_Untitled) | {"title": "kbench config"}


EXPECTED = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a word",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "too_short": "{min_length} or more elements",
    "too_long": "{max_length} or fewer elements",
    "value_error": "{error}",
}
"""pydantic's types of error, as the end of the sentence "expected ..."."""


def check(document: Node, model: type[BaseModel] = File) -> list[ConfigIssue]:
    """What keeps a document from being a config, or a part of one that a profile may change.

    The tags of discriminated unions appear in pydantic's locations; ours are written `<tag>` and are dropped here.
    """
    try:
        model.model_validate(document.plain)
    except ValidationError as error:
        details = error.errors(include_url=False)
    else:
        return []
    issues: list[ConfigIssue] = []
    missing: dict[Location, ConfigIssue] = {}
    meant: set[Location] = set()
    for detail in details:
        location = tuple(part for part in detail["loc"] if not str(part).startswith("<"))
        node, parent = document.at(location), location[:-1]
        name = next((part for part in reversed(location) if isinstance(part, str)), "")
        context = detail.get("ctx", {})
        if detail["type"] == "missing":
            missing[location] = ConfigIssue(node.where, f'missing key "{name}"')
        elif detail["type"] == "extra_forbidden":
            present = document.at(parent).entries
            keys = candidates(name, _keys(model, parent, present), present)
            meant.add((*parent, nearest(name, keys) or ""))
            message = unknown("key", name, keys)
            if not parent and name in Measure.model_fields:
                message = f"{name} belongs under measure"
            elif not parent and name in ("dtype", "mode"):
                message = f"{name} belongs under sweep"
            issues.append(ConfigIssue(node.key, message))
        elif detail["type"] == "literal_error":
            words = re.findall(r"'([^']*)'", context["expected"])
            issues.append(ConfigIssue(node.where, unknown(name, node.plain, words)))
        elif detail["type"] in EXPECTED:
            allowed = EXPECTED[detail["type"]].format(**context)
            issues.append(ConfigIssue(node.where, expected(name, allowed, node.plain)))
        else:
            issues.append(ConfigIssue(node.where, f"{name}: {detail['msg']}"))
    # a misspelt key is one mistake, not an unknown key and a missing one
    return issues + [issue for location, issue in missing.items() if location not in meant]


def _keys(model: type[BaseModel], location: Location, present: Container[str]) -> Iterable[str]:
    """The keys allowed in the mapping at this place, which has the keys `present`."""
    if location[:1] == ("profiles",):
        return _keys(Overlay, location[2:], present)
    if location[:1] == ("measure",):
        return Measure.model_fields
    if not location:
        return model.model_fields
    return Powers.model_fields if "pow2" in present else Range.model_fields


def expected(name: str, allowed: str, value: Any) -> str:
    return f"{name + ': ' if name else ''}expected {allowed}; got {as_written(value)}"
