"""The catalog: what exists on a machine. The parent imports neither torch nor triton, so it asks a worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kbench.contract.tensor import Layout, total_bytes
from kbench.results.case import BACKWARD, FLOATING, FORWARD, Case, Value

KEPT_CALLS = 5
"""The least memory that a case takes, in tensors of a call: four sets of inputs, three of outputs and the buffers of the copy
control. Slices of the float64 reference are small beside them in a large case. Where memory is free, kbench also keeps values
of the reference."""


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

    label        name in plots
    parameters   names and defaults of the parameters that a config can sweep
    unavailable  why it cannot run on this machine; None where it can
    plugin       the plug-in that registers it; None for a provider of kbench
    source_hash  hash of its source code
    place        `kernels/mine.py:12`, relative to the working directory; empty for a file elsewhere
    interpreted  whether Triton's interpreter runs it, so that it can be checked but not timed
    """

    label: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    unavailable: str | None = None
    plugin: str | None = None
    source_hash: str = ""
    place: str = ""
    interpreted: bool = False


@dataclass(frozen=True)
class OperatorInfo:
    """One operator.

    axes       names of its integer axes, in the order of the CSV's columns
    choices    allowed words of each choice, and of `mode` if it has gradients; the first is the default
    dtypes     dtypes that it is defined for; the first is the default
    edges      names of its edge inputs by mode
    providers  its implementations by name
    scalars    its numbers and booleans with their defaults
    inputs     the tensors that it takes, by name
    outputs    the tensors that it returns, by name
    gradients  the inputs that have a gradient
    judged     whether it judges its outputs itself
    model_axes what its axes are in a language model: a mapping from axes to dimensions for each shape that a model has
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

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the CSV that name a case, without the dtype: axes, scalars, choices and mode."""
        return (*self.axes, *self.scalars, *self.choices)

    def call_bytes(self, case: Case) -> int:
        """The bytes of all tensors of one call, each once: what it gets and what it returns. Raises SizeError."""
        return total_bytes([*self._received(case), *self._returned(case)], case)

    def needed_bytes(self, case: Case) -> int:
        """About the least memory, in bytes, that a worker takes for a case. Raises SizeError."""
        return KEPT_CALLS * self.call_bytes(case)

    def _received(self, case: Case) -> list[Layout]:
        """The inputs and, in the modes with gradients, the gradients of the floating-point outputs."""
        inputs = list(self.inputs.values())
        if case.mode == FORWARD:
            return inputs
        return inputs + [each for each in self.outputs.values() if each.dtype_in(case) in FLOATING]

    def _returned(self, case: Case) -> list[Layout]:
        """The outputs, the gradients of inputs, or both."""
        outputs = [] if case.mode == BACKWARD else list(self.outputs.values())
        return outputs if case.mode == FORWARD else outputs + [self.inputs[name] for name in self.gradients]


@dataclass(frozen=True)
class SourceSweep:
    """What a source asks to measure: an operator of the catalog, its cases and its providers. It has the content of a config.

    points     axes, scalars, choices and `dtype` of each case
    providers  the providers, each with the values of its parameters; the first is the baseline
    """

    operator: str
    points: tuple[Mapping[str, Value], ...]
    providers: Mapping[str, Mapping[str, tuple[Value, ...]]]


@dataclass(frozen=True)
class PluginError:
    """A plug-in that failed, with the place in its own code."""

    plugin: str
    where: str
    message: str


@dataclass(frozen=True)
class AcceleratorInfo:
    """What only a machine with an accelerator reports. Sizes in bytes; None where the device does not tell.

    device_id     hash that identifies the device without naming it
    device_count  devices of this type that the process sees
    """

    total_memory: int | None
    multi_processor_count: int | None
    major: int | None
    minor: int | None
    gcn_arch_name: str | None
    device_id: str
    device_count: int


@dataclass(frozen=True)
class MachineInfo:
    """What a reader needs to believe, repeat or distrust a row. Sizes in bytes, clocks in MHz, power in watts.

    None and "" mean that the machine does not tell. `limits` are clock and power limits, `packages` versions,
    `variables` environment variables that affect the measurement.
    """

    device: str
    device_type: str
    cache_bytes: int | None
    driver: str | None
    telemetry: str | None
    limits: Mapping[str, int | float | None]
    peak_gbps: int | float | None
    other_processes: int | None
    cuda: str | None
    hip: str | None
    nvcc: str | None
    triton_interpreter: bool
    python: str
    platform: str
    cpu_count: int | None
    threads: int
    packages: Mapping[str, str]
    variables: Mapping[str, str]
    accelerator: AcceleratorInfo | None = None

    def to_record(self) -> dict[str, Any]:
        """The entries of the environment file that describe the machine."""
        record = dataclasses.asdict(self)
        accelerator = record.pop("accelerator") or {}
        architecture = accelerator.pop("gcn_arch_name", None)
        return record | accelerator | ({"gcnArchName": architecture} if architecture else {})


@dataclass(frozen=True)
class Catalog:
    """What exists on a machine.

    device         the current device
    devices        all devices that the worker sees; none for the host
    operators      operators by name
    plugin_errors  plug-ins that failed
    machine        description of the machine, for the environment file
    sweeps         what the source of the request asks to measure
    memory_bytes   all memory of the current device; None if it does not tell
    """

    device: DeviceInfo
    devices: tuple[DeviceInfo, ...]
    operators: Mapping[str, OperatorInfo]
    plugin_errors: tuple[PluginError, ...]
    machine: MachineInfo
    sweeps: tuple[SourceSweep, ...] = ()
    memory_bytes: int | None = None

    def providers(self, operator: str) -> Mapping[str, ProviderInfo]:
        """The providers of an operator by name; none for an unknown operator."""
        found = self.operators.get(operator)
        return found.providers if found else {}
