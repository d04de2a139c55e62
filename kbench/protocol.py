"""Every message between kbench and its worker process: a frozen dataclass each, and their encoding as lines.

The parent sends requests. The worker answers each with any number of events or with a catalog, and then with `RequestDone`.

A message is one line: a secret, the name of its class, and its fields as JSON. The parent makes a new secret for each request,
and the worker repeats it in every answer: providers run in the worker, and a line that they write to its pipe is no message.
What a worker says is made printable where it is decoded. Files, pages and terminals escape what they show.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from kbench.contract.tensor import Layout, total_bytes
from kbench.launches.launched_call import DeviceLimits, LaunchedCall
from kbench.results.case import BACKWARD, FORWARD, Case, Value, configuration_name, format_params
from kbench.results.environment import Machine
from kbench.results.row import Row
from kbench.results.timers import DEFAULT_TIMER, TIMERS, timers_in_words
from kbench.results.vocabulary import Status
from kbench.text.printable import REASON_LIMIT, printable, without_colours

if TYPE_CHECKING:
    TimerName = str
else:
    TimerName = Literal[tuple(TIMERS)]

# -- what the parent asks


@dataclass(frozen=True)
class Configuration:
    """A provider with values for its parameters."""

    provider: str
    params: Mapping[str, Value]

    @property
    def name(self) -> str:
        """`triton-row[num_warps=4]`"""
        return configuration_name(self.provider, format_params(self.params))


PRECISE_REP_MS = 8.0
"""How long a round takes samples, in ms, if the config asks for a precision and does not say. Several short rounds tell more
than a long one: they are in another order each time, and a provider can leave earlier."""


def _share(value: Any) -> Any:
    """A share of 0.005 from `0.5%`."""
    if isinstance(value, str) and value.strip().endswith("%"):
        with suppress(ValueError):
            return float(value.strip().removesuffix("%")) / 100
    return value


Share = Annotated[
    float,
    Field(ge=1e-4, le=0.5),
    BeforeValidator(_share, json_schema_input_type=float | Annotated[str, Field(pattern=r"^[0-9.]+ ?%$")]),
]


class Measure(BaseModel):
    """How each case is measured: the section `measure` of a config."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    timer: TimerName = Field(
        default=DEFAULT_TIMER,
        description=f"The timer of all providers: {timers_in_words()}.",
    )
    cache: Literal["cold", "warm"] = Field(
        default="cold",
        description="cold: the cache is flushed before each call. warm: it is not. Default: cold, and warm when the CPU is "
        "measured.",
    )
    stages: bool = Field(default=False, description="Also time the allocation, and the copies to and from the device.")
    warmup_ms: float = Field(
        default=25,
        ge=0,
        le=60_000,
        description="How long to run a provider untimed before the samples of its first round in a case, in ms.",
    )
    rep_ms: float = Field(
        default=100,
        gt=0,
        le=60_000,
        description=f"How long to take samples in each round, in ms. With precision, the default is {PRECISE_REP_MS:.0f}.",
    )
    rounds: int = Field(
        default=5,
        ge=1,
        le=1_000,
        description="Number of rounds: passes over the providers of a case, in shuffled order. With precision: the smallest "
        "number.",
    )
    precision: Share | None = Field(
        default=None,
        description="Add rounds until the time of a provider and its ratio to the baseline are known this well, for example "
        "0.5%. If not given, every provider has the same number of rounds.",
    )
    max_ms: float = Field(
        default=500,
        gt=0,
        le=3_600_000,
        description="With precision: kbench begins no further round of a provider in a case once its rounds have taken this "
        "long, in ms.",
    )
    sessions: int = Field(
        default=1, ge=1, le=100, description="Number of sessions: fresh processes that each measure the whole sweep."
    )
    timeout_s: float = Field(
        default=120, gt=0, le=86_400, description="Limit for the check of a provider and for each of its rounds, in s."
    )
    build_timeout_s: float = Field(default=600, gt=0, le=86_400, description="Limit for building a provider, in s.")
    threads: int | None = Field(
        default=None,
        ge=1,
        le=4_096,
        description="CPU threads of a provider. If not given: 1 when the CPU is measured, torch's default when an accelerator "
        "is measured.",
    )
    kernels: bool = Field(
        default=True,
        description="Record which kernels a call launches and how much memory it takes (columns `kernels`, `code` and "
        "`peak_bytes`), with two extra calls per provider and case after the last round. Only on NVIDIA devices.",
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of the inputs and of the order of the providers.")

    @model_validator(mode="before")
    @classmethod
    def _short_rounds(cls, values: Any) -> Any:
        precise = isinstance(values, dict) and values.get("precision") is not None
        return {"rep_ms": PRECISE_REP_MS, **values} if precise else values


@dataclass(frozen=True)
class CatalogRequest:
    """Import plug-ins, load a source, and answer with a `Catalog`. Every worker gets this request first.

    plugins       files that the user names: plug-ins, or further solutions of the problem
    source        the absolute path of the problem to measure (see kbench/sources/); empty for a config
    needed_bytes  if not 0, use the device and this much of its memory before any plug-in is imported: a process that is not let
                  in, or that finds too little memory, ends there
    folder        if given, this worker checks what another worker runs: it sends a `CallRequest` for each configuration, and
                  waits for what the other one has `Delivered`. A file of this folder is host memory that both see
    """

    plugins: tuple[str, ...]
    source: str = ""
    needed_bytes: int = 0
    folder: str = ""


@dataclass(frozen=True)
class Task:
    """Check and time configurations on a case, together and in one session. The answer is `Rows`.

    baseline     the name of the configuration that speed-ups refer to; there is none if it is not among them
    requirements what the worker must have in common with the one whose catalog made the plan: see plan.requirements
    """

    case: Case
    configurations: tuple[Configuration, ...]
    baseline: str | None
    settings: Measure
    session: int
    requirements: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialRequest:
    """Call the operator's own functions on the case of a task, and answer with a `Fault` when one fails. A case with small axes
    stands for it where the operator accepts those."""

    task: Task


@dataclass(frozen=True)
class CheckRequest:
    """Check the configurations of a task on random inputs and, unless `without_edges`, on every edge input, and answer with
    `Rows` for each. `skip` has the names of configurations and edge inputs that are done."""

    task: Task
    skip: tuple[tuple[str, str], ...] = ()
    without_edges: bool = False


@dataclass(frozen=True)
class ClockRequest:
    """Take the time of the only configuration of a task, which runs in another worker unless `here`, and answer with a
    `ClockReading`. `claimed_ms` is about what a call takes, as the process of the candidates has measured it."""

    task: Task
    claimed_ms: float
    here: bool


@dataclass(frozen=True)
class ClockReading:
    """What the clock of the worker that judges says of a call: it takes at least `least_ms`, which may be negative, and at most
    `most_ms`. None: it was not timed. `wrong`: why it failed, or its outputs are wrong."""

    least_ms: float | None = None
    most_ms: float | None = None
    wrong: str = ""


@dataclass(frozen=True)
class PassedTensor:
    """A tensor in memory that two workers see. `start` is the byte of its first element."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class CallRequest:
    """Call the only configuration of a task on inputs of another worker, and answer with `Delivered`.

    edge     the name of the inputs
    memory   the words that open the memory with the inputs
    inputs   the tensors there
    outputs  where the outputs belong: those of the first call, what becomes of them later, and those of the second call
    sets     if not 0, call once on each of so many sets of inputs, and write its outputs. Each set lies `step` bytes behind the
             one before. The same request again is for new inputs in the same memory
    """

    task: Task
    edge: str
    memory: str
    inputs: tuple[PassedTensor, ...] = ()
    outputs: tuple[PassedTensor, ...] = ()
    sets: int = 0
    step: int = 0

    @property
    def in_file(self) -> bool:
        """Whether the memory is a file, which every process of the user can open: its words are a size and a path."""
        return " " in self.memory


@dataclass(frozen=True)
class Delivered:
    """What a configuration has made of a `CallRequest`: its end, with a reason, or outputs in the memory that both workers
    see. `later` and `second` say whether the further outputs of the request are there too. If not `opened`, the worker cannot
    use the memory."""

    status: Status | None
    reason: str = ""
    cause: str = ""
    second_fault: str = ""
    deterministic: bool | None = None
    later: bool = False
    second: bool = False
    opened: bool = True


# -- what exists on a machine: the parent imports neither torch nor triton, so it asks a worker


@dataclass(frozen=True)
class DeviceInfo:
    """One device, or the host where there is none.

    type       as torch calls it: `cuda`, `cpu`, ...
    index      its number on the host; None for the host itself
    uuid       identifies the device; empty where the device does not tell
    variables  environment variables with which a process sees this device alone
    """

    type: str
    name: str
    index: int | None = None
    uuid: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProviderInfo:
    """One implementation of an operator.

    parameters   names and defaults of the parameters that a config can sweep
    unavailable  why it cannot run on this machine; None where it can
    plugin       the plug-in that registers it; None for a provider of kbench
    source_hash  hash of its source code
    place        `kernels/mine.py:12`, relative to the working directory; empty for a file elsewhere
    interpreted  whether Triton's interpreter runs it, so that it can be checked but not timed
    """

    parameters: Mapping[str, Value] = field(default_factory=dict)
    unavailable: str | None = None
    plugin: str | None = None
    source_hash: str = ""
    place: str = ""
    interpreted: bool = False


KEPT_CALLS = 5
"""The least memory that a case takes, in tensors of a call: four sets of inputs, three of outputs and the buffers of the copy
control. Slices of the float64 reference are small beside them in a large case. Where memory is free, kbench also keeps values
of the reference."""


@dataclass(frozen=True)
class OperatorInfo:
    """What the parent knows of an `Operator`, which says what most of this is.

    choices    allowed words of each choice, and of `mode` if it has gradients; the first is the default
    edges      names of its edge inputs by mode
    judged     whether it judges its outputs itself
    model_axes a mapping from axes to dimensions for each shape that a model has
    source_hash hash of the file with its reference
    rows       whether it has an axis of independent rows
    """

    axes: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    dtypes: tuple[str, ...]
    edges: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    providers: Mapping[str, ProviderInfo] = field(default_factory=dict)
    scalars: Mapping[str, bool | int | float] = field(default_factory=dict)
    inputs: Mapping[str, Layout] = field(default_factory=dict)
    outputs: Mapping[str, Layout] = field(default_factory=dict)
    gradients: tuple[str, ...] = ()
    judged: bool = False
    model_axes: tuple[Mapping[str, str], ...] = ()
    source_hash: str = ""
    rows: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the CSV that name a case, without the dtype: axes, scalars, choices and mode."""
        return (*self.axes, *self.scalars, *self.choices)

    def tensor_bytes(self, case: Case) -> int:
        """The bytes of all tensors of one call, each once: what it gets and what it returns. Raises SizeError."""
        inputs, outputs = self.inputs.values(), self.outputs.values()
        if case.mode == FORWARD:
            return total_bytes([*inputs, *outputs], case)
        received = [output for output in outputs if output.is_floating(case)]  # their gradients
        gradients = [self.inputs[name] for name in self.gradients]
        returned = gradients if case.mode == BACKWARD else [*outputs, *gradients]
        return total_bytes([*inputs, *received, *returned], case)

    def needed_bytes(self, case: Case) -> int:
        """About the least memory, in bytes, that a worker takes for a case. Raises SizeError."""
        tensor_bytes = self.tensor_bytes(case)
        if self.rows:
            return KEPT_CALLS * tensor_bytes
        # the whole reference in float64: inputs and outputs, twice; beside it four sets of inputs and the output of a call
        exact_bytes = 2 * self.tensor_bytes(replace(case, dtype="float64"))
        return max(KEPT_CALLS * tensor_bytes, exact_bytes + KEPT_CALLS * tensor_bytes // 2)


@dataclass(frozen=True)
class Fault:
    """Code of other people that cannot be used, at `where`: a function of the operator, a script, or a `plugin`."""

    where: str
    message: str
    plugin: str = ""

    def __str__(self) -> str:
        return f"plug-in {self.plugin} failed: {self.where}: {self.message}"


@dataclass(frozen=True)
class Catalog:
    """What exists on a machine.

    device         the current device
    devices        all devices that the worker sees; none for the host
    operators      operators by name
    plugin_errors  plug-ins that failed
    machine        description of the machine, for the environment file
    config         the content of the config of the problem in the request; its providers are all of the operator
    memory_bytes   all memory of the current device; None if it does not tell
    """

    device: DeviceInfo
    devices: tuple[DeviceInfo, ...]
    operators: Mapping[str, OperatorInfo]
    plugin_errors: tuple[Fault, ...]
    machine: Machine
    config: Mapping[str, Any] | None = None
    memory_bytes: int | None = None

    def providers(self, operator: str) -> Mapping[str, ProviderInfo]:
        """The providers of an operator by name; none for an unknown operator."""
        info = self.operators.get(operator)
        return info.providers if info else {}


# -- what a worker reports while it answers

RECORD = "record"
"""The step in which a provider is called for its kernels. It is the last one, and the row is complete without it."""

COMPUTE = "compute"
"""The step in which a worker that checks draws inputs and computes what a call must deliver for them."""

STEPS = {
    COMPUTE: "computing",
    "import": "importing it",
    "load": "loading it",
    "ask": "asking whether it is available",
    "build": "building",
    "check": "checking",
    "time": "timing",
    RECORD: "recording its kernels",
}
"""The steps in which a worker runs other people's code, and how reasons and progress name them. A plug-in is imported, a
script or a problem loaded, a reference called. The others are those of a provider."""

NO_INDEX = -1
"""The index of what is no configuration."""


@dataclass(frozen=True)
class StepBegun:
    """A configuration, or a plug-in, enters a step, which may take `limit_s` seconds.

    index  of the configuration in the request; NO_INDEX for a plug-in
    name   of the configuration or the plug-in
    edge   the edge input that is being checked
    """

    index: int
    name: str
    step: str
    limit_s: float
    edge: str = ""


@dataclass(frozen=True)
class StepEnded:
    """The last step has ended."""


@dataclass(frozen=True)
class CallRecorded:
    """What a call of a configuration launches on a device with these limits. The row that follows has its `code`. `code_files`
    are the files of the worker's machine with the machine code of its kernels, by digest."""

    launched: LaunchedCall
    limits: DeviceLimits
    code_files: Mapping[str, str] = field(default_factory=dict)


RANDOM = "random"
"""The name of the random inputs, which `kbench check` tries before the edge inputs."""


@dataclass(frozen=True)
class Rows:
    """The rows of a measured case: one for each configuration of the request, then the controls. Or the row of a configuration
    on one edge input.

    stateful  whether a provider is wrong in the first call of its process only, so that the next case needs a new process
    """

    rows: tuple[Row, ...]
    stateful: bool = False


@dataclass(frozen=True)
class DeviceFailed:
    """The device no longer answers, and the worker ends. `status` is that of the configuration that was running."""

    status: Status
    reason: str


@dataclass(frozen=True)
class PointBegun:
    """The lines of a script's plot are measured at a point from now on. The indices of its steps are those of `rows`, which the
    lines get if the process ends. `label` names the point."""

    label: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class LineDone:
    """What a line of a script's plot has returned at a point; a later process of the same script is told. Or the process has
    ended while the line ran: `status` and `reason` are those of its row. Without a `label`, they are those of its rows at all
    further points."""

    plot: str
    label: str
    line: str
    returned: Any = None
    status: Status | None = None
    reason: str = ""


@dataclass(frozen=True)
class RequestDone:
    """The request is answered."""


# -- a process that measures itself, as a script does

ROWS_FILE = "KBENCH_EXEC_ROWS"
"""The environment variable with the path of the file to which it appends its messages."""

PROGRAM = "KBENCH_EXEC_PROGRAM"
"""The environment variable with the name of its results."""

SETTINGS, SESSION = "KBENCH_EXEC_SETTINGS", "KBENCH_EXEC_SESSION"
"""The environment variables with how `kbench run` measures the lines of a script, as JSON, and the number of the session. The
processes that a script starts inherit them."""

# -- lines

Request = CatalogRequest | Task | TrialRequest | CheckRequest | ClockRequest | CallRequest | Delivered

Message = (
    Catalog
    | StepBegun
    | StepEnded
    | Rows
    | CallRecorded
    | CallRequest
    | Delivered
    | ClockReading
    | DeviceFailed
    | PointBegun
    | LineDone
    | Fault
    | RequestDone
)
"""What a worker sends."""

LINE_LIMIT = 16 << 20
"""Bytes of a message. The rows of a thousand configurations are about one million."""

_REQUESTS: dict[str, Any] = {kind.__name__: kind for kind in typing.get_args(Request)}
_MESSAGES: dict[str, Any] = {kind.__name__: kind for kind in typing.get_args(Message)}


class ProtocolError(ValueError):
    """A line that is no message of kbench. The text says what is wrong with it."""


def encode(message: Message | Request, secret: str) -> bytes:
    """The line of a message. Raises TypeError and ValueError for content that JSON cannot hold."""
    return f"{secret} {type(message).__name__} {json.dumps(message, default=_entries)}\n".encode()


def _entries(part: Any) -> dict[str, Any]:
    """What JSON holds of a dataclass or a model. `dataclasses.asdict` would copy every value that is in it."""
    if isinstance(part, BaseModel):
        return part.entries() if isinstance(part, Machine) else part.model_dump()
    if not dataclasses.is_dataclass(part):
        raise TypeError(f"{type(part).__name__} is no value of JSON")
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}


def decode(line: bytes, secret: str) -> Message:
    """The message of a worker. Raises ProtocolError."""
    repeated, kind, data = _parts(line)
    if repeated != secret:
        raise ProtocolError("a line without the secret of the request")
    message: Message = _decoded(_MESSAGES.get(kind), json.dumps(_printable(_loaded(data))))
    return message


def decode_request(line: bytes) -> tuple[str, Request]:
    """The secret of a line and its request. Raises ProtocolError."""
    secret, kind, data = _parts(line)
    return secret, _decoded(_REQUESTS.get(kind), data)


def _parts(line: bytes) -> tuple[str, str, str]:
    secret, _, rest = line.decode("utf-8", "replace").partition(" ")
    kind, _, data = rest.partition(" ")
    return secret, kind, data


def _loaded(data: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a line that is not JSON") from error


def _printable(value: Any) -> Any:
    """A value of JSON with all its texts on one printable line each, without the colours of a compiler."""
    if isinstance(value, str):
        plain = value.isprintable() and len(value) <= REASON_LIMIT
        return value if plain else printable(without_colours(value), REASON_LIMIT)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(name): _printable(item) for name, item in value.items()}
    return value


def _decoded(kind: Any, data: str) -> Any:
    if kind is None:
        raise ProtocolError("a message of no known kind")
    try:
        return _adapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(f"{kind.__name__} {place}: {first['msg']}") from error


_adapter = functools.cache(TypeAdapter[Any])
