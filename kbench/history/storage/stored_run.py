"""A file of a history folder: the readings of one run. docs/history.md describes the format.

Another program may have written the file, so its types are checked, and its text becomes printable and is cut at a limit.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from kbench.errors import ResultsError
from kbench.results.vocabulary import Role, Status
from kbench.text.printable import NAME_LIMIT, REASON_LIMIT, printable, safe_reason

STORED_FORMAT: Literal["kbench.history/1"] = "kbench.history/1"

_Name = Annotated[str, AfterValidator(lambda text: printable(text, NAME_LIMIT))]
_Reason = Annotated[str, AfterValidator(safe_reason)]
_Setting = Annotated[str, AfterValidator(lambda text: printable(text, REASON_LIMIT))]


class _Model(BaseModel):
    model_config = ConfigDict(
        allow_inf_nan=False,
        extra="ignore",  # a later version of kbench may add entries
        frozen=True,
        field_title_generator=lambda name, _: name,
        model_title_generator=lambda model: model.__name__.removeprefix("Stored"),
    )


class StoredReading(_Model):
    """One row of a results file: a provider, or the copy control, in one case and session."""

    operator: _Name
    provider: _Name
    params: _Name = ""
    axes: dict[_Name, int | float | bool | _Name] = Field(
        description="Axes, scalars, choices and mode by name, in the order of the results file."
    )
    dtype: _Name
    role: Role = Role.PROVIDER
    session: int = Field(ge=0)
    status: Status
    reason: _Reason = ""
    ms: float | None = Field(default=None, gt=0, description="The time of a call in ms; null unless the status is ok.")
    suspect: bool = Field(default=False, description="Whether the time is shorter than is possible.")
    timer: _Name = ""
    cache: _Name = ""
    device: _Name = ""
    device_uuid: _Name = ""
    started_at: _Name = Field(default="", description="UTC to the second, as ISO 8601.")
    case_hash: _Name = ""
    source_hash: _Name = ""
    env_id: _Name = Field(default="", description="The key of the environment in `environments`.")

    @property
    def identity(self) -> tuple[Any, ...]:
        """Two readings with the same identity are the same row of a results file, added twice."""
        place = (self.operator, self.provider, self.params, tuple(self.axes.items()), self.dtype)
        return (*place, self.session, self.device_uuid, self.started_at, self.status, self.ms)


class StoredRun(_Model):
    """What one `kbench history add` stores."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    format: Literal["kbench.history/1"] = Field(alias="schema")
    source: _Name = Field(description="The name of the results file.")
    added_at: _Name = Field(description="When the file was added: UTC to the second, as ISO 8601.")
    machine: _Name = Field(default="", description="The name that `--machine` gave; empty without that option.")
    baseline: _Name = Field(default="", description="The baseline of the config.")
    commit: _Name = Field(
        default="", description="The git commit of the code. A `+` at its end stands for uncommitted changes."
    )
    environments: dict[_Name, dict[_Name, _Setting]] = Field(
        default={}, description="For each `env_id`, what may affect times, such as `driver` or `packages.torch`."
    )
    readings: list[StoredReading] = Field(min_length=1)

    @cached_property
    def started_at(self) -> str:
        """When its first reading was taken; when it was added, if the readings do not tell."""
        return min((reading.started_at for reading in self.readings if reading.started_at), default=self.added_at)


def stored_schema() -> dict[str, Any]:
    """The JSON Schema of a file of a history folder."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | StoredRun.model_json_schema(by_alias=True)


def load_stored(path: Path) -> StoredRun:
    """The content of a file. Raises ResultsError for a file that cannot be read or was not written by kbench."""
    advice = "restore the file or delete it"
    try:
        return StoredRun.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}); {advice}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        if where == "schema" and str(first["input"]).startswith("kbench.history/"):
            what = f"has a different history format from the one that this kbench reads, which is {STORED_FORMAT}"
            raise ResultsError(f"{path}: {what}; use the kbench that wrote it, or a newer one") from None
        what = printable(f"{where}: {first['msg']}" if where else str(first["msg"]), NAME_LIMIT)
        raise ResultsError(f"{path}: not a file of a history folder ({what}); {advice}") from None
