"""The environment file beside a results CSV: the machine, versions and settings with which its rows were measured.

A value that is not known is None. Entries of other versions of kbench are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

Number = int | float


def _encodable(text: Any) -> Any:
    """The names of files may have bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_encodable)]
"""What a user has typed."""


class Record(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    def entries(self) -> dict[str, Any]:
        """What the file says."""
        return self.model_dump(exclude_unset=True)


class Machine(Record):
    """What a reader needs to believe, repeat or distrust a row: a worker reports it. Sizes in bytes, clocks in MHz, power in
    watts. Only an accelerator has what stands from `total_memory` on.

    limits        clock and power limits
    packages      versions
    variables     environment variables that affect the measurement
    device_id     hash that identifies the device without naming it
    device_count  devices of this type that the process sees
    """

    device: str | None = None
    device_type: str | None = None
    cache_bytes: Number | None = None
    driver: str | None = None
    telemetry: str | None = None
    limits: dict[str, Number | None] = {}
    peak_gbps: Number | None = None
    other_processes: int | None = None
    cuda: str | None = None
    hip: str | None = None
    nvcc: str | None = None
    triton_interpreter: bool | None = None
    python: str | None = None
    platform: str | None = None
    cpu_count: int | None = None
    threads: int | None = None
    packages: dict[str, str] = {}
    variables: dict[str, str] = {}
    total_memory: int | None = None
    multi_processor_count: int | None = None
    major: int | None = None
    minor: int | None = None
    device_id: str | None = None
    device_count: int | None = None
    gcnArchName: str | None = None


class Git(Record):
    """The commit of the folder of the config. `dirty`: whether files were changed since; None if git did not answer."""

    commit: str
    dirty: bool | None = None


class RecordedConfig(Record):
    """The config that was measured. `source` is the script or problem that it was made of."""

    path: Text = ""
    sha: str | None = None
    text: Text = ""
    source: Text | None = None


class Environment(Machine):
    """What an environment file says: the machine on which the plan was made, and the run.

    env_id         the hash by which rows name the machine
    scope          where the rows may come from: one `device`, one `host`, or a `cluster`
    kbench         its version
    locked_clocks  the clocks of each device that was locked, by its UUID
    places         where each provider is defined
    continued      the runs that continued the file
    environments   the other machines that made rows, by their `env_id`
    """

    env_id: str | None = None
    scope: str = "device"
    kbench: str | None = None
    command: list[Text] = []
    started_at: str | None = None
    git: Git | None = None
    locked_clocks: dict[str, dict[str, Number | None]] = {}
    config: RecordedConfig | None = None
    profile: str | None = None
    baseline: str | None = None
    measure: dict[str, Any] = {}
    places: dict[str, Text] = {}
    plugin_errors: list[dict[str, Text]] = []
    continued: list[dict[str, Any]] = []
    environments: dict[str, Machine] = {}
    finished_at: str | None = None
    interrupted: bool | None = None

    @property
    def known(self) -> bool:
        """Whether the file says anything."""
        return bool(self.model_fields_set)


def environment_path(csv: Path | str) -> Path:
    """`results/softmax.csv` -> `results/softmax.env.json`"""
    return Path(csv).with_suffix(".env.json")


def read_environment(csv: Path | str) -> tuple[Environment, str]:
    """The environment of a results CSV, and a note on what is wrong with its file; "" if nothing is.

    A missing or damaged file is not an error, because a CSV is useful without it.
    """
    path = environment_path(csv)
    try:
        return Environment.model_validate_json(path.read_bytes()), ""
    except FileNotFoundError:
        problem = "no such file"
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except ValidationError as error:
        first = error.errors()[0]
        problem = (
            f"not an environment file ({': '.join(['.'.join(map(str, first['loc'])), first['msg']]).lstrip(': ')})"
        )
    return Environment(), f"{path}: {problem}; kbench knows the machine only from the CSV"
