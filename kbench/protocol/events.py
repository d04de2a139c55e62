"""What a worker reports while it answers a request."""

from __future__ import annotations

from dataclasses import dataclass

from kbench.launches.device_limits import DeviceLimits
from kbench.launches.launched_call import LaunchedCall
from kbench.results.row import Row
from kbench.results.vocabulary import Status

RECORD = "record"
"""The step in which a provider is called for its kernels. It is the last one, and the row is complete without it."""

STEPS = {
    "import": "importing it",
    "load": "loading it",
    "ask": "asking whether it is available",
    "build": "building",
    "check": "checking",
    "time": "timing",
    RECORD: "recording its kernels",
}
"""The steps in which a worker runs other people's code, and how reasons and progress name them. A plug-in is imported, a
script or a problem loaded. The others are those of a provider."""

NO_INDEX = -1
"""The index of what is no configuration."""

LONGEST_STEP_S = 1e9
"""The highest time limit of a step, in seconds."""


@dataclass(frozen=True)
class StepBegun:
    """A configuration, or a plug-in, enters a step, which may take `limit_s` seconds. Raises ValueError for an unknown step.

    index  of the configuration in the request; NO_INDEX for a plug-in
    name   of the configuration or the plug-in
    edge   the edge input that is being checked
    """

    index: int
    name: str
    step: str
    limit_s: float
    edge: str = ""

    def __post_init__(self) -> None:
        if self.step not in STEPS or not 0 < self.limit_s <= LONGEST_STEP_S:
            raise ValueError("unknown step, or a time limit out of range")


@dataclass(frozen=True)
class StepEnded:
    """The configuration with this index has left its step."""

    index: int


@dataclass(frozen=True)
class RoundTimed:
    """A round of a configuration took `ms` milliseconds (median)."""

    index: int
    name: str
    round: int
    ms: float


@dataclass(frozen=True)
class CallRecorded:
    """What a call of a configuration launches on a device with these limits. The row that follows has its `code`."""

    launched: LaunchedCall
    limits: DeviceLimits


@dataclass(frozen=True)
class Sampling:
    """A round of a configuration takes samples from now on or, if `samples` is not 0, has taken so many. The parent looks at
    its own clock then."""

    index: int
    samples: int = 0


RANDOM = "random"
"""The name of the random inputs, which `kbench check` tries before the edge inputs."""


@dataclass(frozen=True)
class EdgeResult:
    """What `kbench check` found for a configuration on one edge input. `shapes` are those of the inputs that have other shapes
    than in the case: `x 256x255`. `not_tried`: the configuration was given up after earlier inputs."""

    index: int
    edge: str
    status: Status
    reason: str
    max_ulp: float | None = None
    max_rel_err: float | None = None
    deterministic: bool | None = None
    shapes: str = ""
    not_tried: bool = False


@dataclass(frozen=True)
class Rows:
    """The rows of a measured case: one for each configuration of the request, then the controls."""

    rows: tuple[Row, ...]


@dataclass(frozen=True)
class DeviceFailed:
    """The device no longer answers, and the worker ends. `status` is that of the configuration that was running."""

    status: Status
    reason: str


@dataclass(frozen=True)
class TrialFailed:
    """A function of the operator fails: `what` is wrong with it, at `where` in its file."""

    where: str
    what: str


@dataclass(frozen=True)
class RequestDone:
    """The request is answered."""
