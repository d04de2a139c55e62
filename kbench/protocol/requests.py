"""What the parent asks of a worker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kbench.results.case import Case, Value, configuration_name, format_params


@dataclass(frozen=True)
class Configuration:
    """A provider with values for its parameters.

    `error` says why the provider could not be looked up. A worker gets no such configuration.
    """

    provider: str
    params: Mapping[str, Value]
    error: str | None = None

    @property
    def name(self) -> str:
        """`triton-row[num_warps=4]`"""
        return configuration_name(self.provider, format_params(self.params))


@dataclass(frozen=True)
class MeasureSettings:
    """The part of a config's `measure` that a worker needs. Times in ms and s, as named; `precision` is a share, None for fixed
    work."""

    timer: str
    cache: str
    stages: bool
    warmup_ms: float
    rep_ms: float
    rounds: int
    seed: int
    timeout_s: float
    build_timeout_s: float
    threads: int | None = None
    precision: float | None = None
    max_ms: float = math.inf
    kernels: bool = True


@dataclass(frozen=True)
class Source:
    """A script or a problem folder that the worker turns into operators. See kbench/sources/.

    path       its absolute path
    arguments  what follows `--` on the command line, for a script
    """

    path: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogRequest:
    """Import plug-ins, load a source, and answer with a `Catalog`. Every worker gets this request first.

    plugins  files that the user names
    source   the script or folder to measure; None for a config
    """

    plugins: tuple[str, ...]
    source: Source | None = None


@dataclass(frozen=True)
class TrialRequest:
    """Call the operator's own functions on a case, and answer with `TrialFailed` when one fails. Without `whole`, a case with
    small axes stands for it where the operator accepts those."""

    case: Case
    settings: MeasureSettings
    whole: bool = False


@dataclass(frozen=True)
class MeasureRequest:
    """Check and time configurations on a case, and answer with `Rows`. `baseline` is an index into `configurations`."""

    case: Case
    configurations: tuple[Configuration, ...]
    baseline: int | None
    settings: MeasureSettings
    session: int


@dataclass(frozen=True)
class CheckRequest:
    """Check configurations on every edge input except those in `skip`, and answer with an `EdgeResult` for each."""

    case: Case
    configurations: tuple[Configuration, ...]
    settings: MeasureSettings
    skip: tuple[str, ...] = ()
