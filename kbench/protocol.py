"""What a worker says to its parent: a frozen dataclass for each kind of message, written and read here alone.

A message is one line: the secret of the request that it answers, a blank, and a JSON object. A provider runs in the
worker and can reach its pipe. The parent therefore believes no line without the secret, reads none of more than
`LINE_LIMIT` bytes, and takes no field of another type than the message declares.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kbench.results.row import CONTROL, PROVIDER, STEPS, Case, Row, Status

LINE_LIMIT = 16 << 20
"""Bytes of a message. The rows of a thousand curves are about one million."""

LIMIT_LIMIT_S = 1e9
"""Seconds that a step may be given."""

INTEGER_LIMIT = 1 << 63


class ProtocolError(ValueError):
    """A line that is no message of kbench's worker. The text says what is wrong with it."""


@dataclass(frozen=True)
class Loading:
    """A plug-in is imported or, where `operator` and `provider` are given, one of its providers is asked whether it is
    available. An empty `plugin` says that the last one is done."""

    plugin: str
    operator: str = ""
    provider: str = ""


@dataclass(frozen=True)
class Catalog:
    """What there is on this machine: see measure/catalog.py."""

    catalog: Mapping[str, Any]


@dataclass(frozen=True)
class Begin:
    """A curve of the request enters a step, which has `limit_s` seconds. `edge` is the input that `check` is at."""

    index: int
    name: str
    step: str
    limit_s: float
    edge: str = ""

    def __post_init__(self) -> None:
        if self.step not in STEPS or not 0 < self.limit_s <= LIMIT_LIMIT_S:
            raise ProtocolError("a step or its limit is not known")


@dataclass(frozen=True)
class End:
    """The curve has left the step."""

    index: int


@dataclass(frozen=True)
class Tick:
    """A round of a curve took `ms` milliseconds (median)."""

    index: int
    name: str
    round: int
    ms: float


@dataclass(frozen=True)
class Cell:
    """What `check` found for a curve on one input."""

    index: int
    edge: str
    status: Status
    reason: str
    max_ulp: float | None = None
    max_rel_err: float | None = None
    deterministic: bool | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of a measured case: one for each curve of the request, then the controls."""

    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Lost:
    """The device no longer answers, and the worker ends."""

    status: Status
    reason: str


@dataclass(frozen=True)
class Fault:
    """A function of the operator that was tried fails: `what` is wrong with it, at `where` in its file."""

    where: str
    what: str


@dataclass(frozen=True)
class Done:
    """The request is answered."""


Message = Loading | Catalog | Begin | End | Tick | Cell | Rows | Lost | Fault | Done

_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Loading, Catalog, Begin, End, Tick, Cell, Rows, Lost, Fault, Done)
}


def encode(message: Message, secret: str) -> bytes:
    """The line of a message. Raises TypeError and ValueError for content that JSON cannot hold."""
    fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    if isinstance(message, Rows):
        fields["rows"] = [row.to_json() for row in message.rows]
    data = {"type": type(message).__name__.lower()} | fields
    return f"{secret} {json.dumps(data, default=str)}\n".encode()


def decode(line: bytes, secret: str) -> Message:
    """The message in a line. Raises ProtocolError."""
    start = f"{secret} ".encode()
    if not line.startswith(start):
        raise ProtocolError("a line without the secret of the request")
    try:
        data = json.loads(line[len(start) :])
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a line that is not JSON") from error
    if not isinstance(data, dict):
        raise ProtocolError("a line that holds no object")
    kind = data.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ProtocolError("a message of no known kind")
    message: Message = _made(_KINDS[kind], data)
    return message


Made = TypeVar("Made")


def _made(kind: type[Made], data: Any) -> Made:
    """A dataclass of the values in a JSON object, each checked against the annotation of its field."""
    if not isinstance(data, dict):
        raise ProtocolError(f"no object where a {kind.__name__} is expected")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not data.keys() <= fields.keys():
        raise ProtocolError(f"a {kind.__name__} with fields that it does not have")
    try:
        return kind(**{name: _CHECKS[str(fields[name].type)](value) for name, value in data.items()})
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a {kind.__name__} whose fields do not fit: {error}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ProtocolError("no text")
    return value.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be written to a file


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) >= INTEGER_LIMIT:
        raise ProtocolError("no integer of 64 bits")
    return value


def _number(value: Any) -> float:
    """NaN and infinity included: an error may be infinite."""
    if type(value) not in (int, float):
        raise ProtocolError("no number")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError("neither true nor false")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError("no list")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError("no object")
    return value


def _case(value: Any) -> Case:
    data = _object(value)
    return Case(_text(data.get("operator")), _object(data.get("axes")), _text(data.get("dtype")))


def _row(value: Any) -> Row:
    _made(Row, value)
    row = Row.from_json(value)
    if row.role not in (PROVIDER, CONTROL):
        raise ProtocolError("a row of no known role")
    if not all(math.isfinite(ms) and ms >= 0 for ms in (row.ms or 0.0, *row.round_ms)):
        raise ProtocolError("a time that is none")
    return row


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _integer,
    "float": _number,
    "int | None": _optional(_integer),
    "float | None": _optional(_number),
    "bool | None": _optional(_boolean),
    "Status": Status,
    "Case": _case,
    "Mapping[str, Any]": _object,
    "tuple[str, ...]": lambda value: tuple(map(_text, _list(value))),
    "tuple[float, ...]": lambda value: tuple(map(_number, _list(value))),
    "tuple[Row, ...]": lambda value: tuple(map(_row, _list(value))),
}
"""By the annotation of a field."""
