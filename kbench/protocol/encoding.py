"""Messages as lines, and the one decoder that checks them.

A message is one line: a secret, a blank, and a JSON object that names its kind in `type`. The parent makes a new secret
for each request, and the worker repeats it in every answer. Providers run in the worker and can write to its pipe. So the
parent accepts no line without the secret, reads no line of more than `LINE_LIMIT` bytes, and accepts no field of another
type than the message declares.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kbench.protocol.catalog import Catalog
from kbench.protocol.events import (
    CallRecorded,
    DeviceFailed,
    EdgeResult,
    RequestDone,
    RoundTimed,
    Rows,
    Sampling,
    StepBegun,
    StepEnded,
    TrialFailed,
)
from kbench.protocol.requests import CatalogRequest, CheckRequest, MeasureRequest, TrialRequest
from kbench.results.case import INTEGER_LIMIT
from kbench.results.row import Row
from kbench.results.vocabulary import Role

LINE_LIMIT = 16 << 20
"""Bytes of a message. The rows of a thousand configurations are about one million."""

Request = CatalogRequest | TrialRequest | MeasureRequest | CheckRequest

Message = (
    Catalog
    | StepBegun
    | StepEnded
    | RoundTimed
    | EdgeResult
    | Rows
    | Sampling
    | CallRecorded
    | DeviceFailed
    | TrialFailed
    | RequestDone
)
"""What a worker sends."""

_REQUESTS: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Request)}
_MESSAGES: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Message)}


class ProtocolError(ValueError):
    """A line that is no message of kbench. The text says what is wrong with it."""


def encode(message: Message | Request, secret: str) -> bytes:
    """The line of a message. Raises TypeError and ValueError for content that JSON cannot hold."""
    return f"{secret} {json.dumps({'type': type(message).__name__} | _to_json(message))}\n".encode()


def decode(line: bytes, secret: str) -> Message:
    """The message of a worker. Raises ProtocolError."""
    start = f"{secret} ".encode()
    if not line.startswith(start):
        raise ProtocolError("a line without the secret of the request")
    message: Message = _decode(line[len(start) :], _MESSAGES)
    return message


def decode_request(line: bytes) -> tuple[str, Request]:
    """The secret of a line and its request. Raises ProtocolError."""
    secret, _, data = line.partition(b" ")
    return secret.decode("ascii", "replace"), _decode(data, _REQUESTS)


Part = TypeVar("Part")


def as_decoded(part: Part) -> Part:
    """A dataclass that is part of a message, as the parent will decode it. Raises ProtocolError, TypeError and ValueError
    when it cannot be sent."""
    checked: Part = _decoder(type(part))(json.loads(json.dumps(_to_json(part))))
    return checked


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _to_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(each) for each in value]
    return value


def _decode(text: bytes, kinds: Mapping[str, type[Any]]) -> Any:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a line that is not JSON") from error
    if not isinstance(data, dict):
        raise ProtocolError("a line that holds no object")
    kind = data.pop("type", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise ProtocolError("a message of no known kind")
    return _decoder(kinds[kind])(data)


Decoder = Callable[[Any], Any]


def _decoder(kind: Any) -> Decoder:
    """A function that turns a JSON value into a value of this type, or raises ProtocolError."""
    if kind not in _DECODERS:
        _DECODERS[kind] = _make_decoder(kind)
    return _DECODERS[kind]


def _make_decoder(kind: Any) -> Decoder:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return functools.partial(_decode_union, tuple(map(_decoder, arguments)))
    if origin is tuple and arguments[1:] == (...,):
        return functools.partial(_decode_list, _decoder(arguments[0]))
    if origin is Mapping and arguments[0] is str:
        return functools.partial(_decode_mapping, _decoder(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return functools.partial(_decode_enum, kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        decoders = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(kind)}
        return functools.partial(_decode_dataclass, kind, decoders)
    raise TypeError(f"{kind} cannot be a field of a message")


def _decode_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ProtocolError("not text")
    return value.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be written to a file


def _decode_integer(value: Any) -> int:
    if type(value) is not int or abs(value) >= INTEGER_LIMIT:
        raise ProtocolError("not an integer of 64 bits")
    return value


def _decode_number(value: Any) -> float:
    """Accepts NaN and infinity: an error may be infinite."""
    if type(value) not in (int, float):
        raise ProtocolError("not a number")
    try:
        return float(value)
    except OverflowError:
        raise ProtocolError("a number that is too large") from None


def _decode_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError("neither true nor false")
    return value


def _decode_none(value: Any) -> None:
    if value is not None:
        raise ProtocolError("not null")


def _decode_union(members: tuple[Decoder, ...], value: Any) -> Any:
    """The first member that accepts the value."""
    for member in members:
        try:
            return member(value)
        except ProtocolError:
            continue
    raise ProtocolError("a value whose type is not the type of the field")


def _decode_list(element: Decoder, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ProtocolError("not a list")
    return tuple(map(element, value))


def _decode_mapping(element: Decoder, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError("not an object")
    return {_decode_text(name): element(each) for name, each in value.items()}


def _decode_enum(kind: type[enum.Enum], value: Any) -> enum.Enum:
    try:
        return kind(value)
    except ValueError:
        raise ProtocolError(f"not a {kind.__name__}") from None


def _decode_dataclass(kind: type[Any], decoders: Mapping[str, Decoder], value: Any) -> Any:
    if not isinstance(value, dict):
        raise ProtocolError(f"no object where a {kind.__name__} is expected")
    if not value.keys() <= decoders.keys():
        raise ProtocolError(f"a {kind.__name__} with unknown fields")
    fields = {name: _decode_field(name, decoders[name], each) for name, each in value.items()}
    try:
        made = kind(**fields)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a {kind.__name__} whose fields do not fit: {error}") from error
    return _checked_row(made, value) if isinstance(made, Row) else made


def _decode_field(name: str, decoder: Decoder, value: Any) -> Any:
    try:
        return decoder(value)
    except ProtocolError as error:
        raise ProtocolError(f"field {name}: {error}") from None


def _checked_row(row: Row, data: Mapping[str, Any]) -> Row:
    """The row with its words made printable. Raises ProtocolError for an unknown role or an impossible time."""
    if row.role not in (Role.PROVIDER, Role.CONTROL):
        raise ProtocolError("a row of no known role")
    if not all(math.isfinite(ms) and ms >= 0 for ms in (row.ms or 0.0, *row.round_ms)):
        raise ProtocolError("a time that is negative or not finite")
    try:
        return Row.from_json(data)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"a Row whose fields do not fit: {error}") from error


_DECODERS: dict[Any, Decoder] = {
    str: _decode_text,
    int: _decode_integer,
    float: _decode_number,
    bool: _decode_boolean,
    types.NoneType: _decode_none,
}
"""By type. `_decoder` adds the others."""
