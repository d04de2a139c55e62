"""The environment file beside a results CSV: the machine, versions and settings with which its rows were measured.

Another program may have written the file, so kbench checks it. The time and memory to read it are bounded. Text becomes
printable and is cut at a limit. An entry with a wrong type or a number out of range is left out, and a note names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kbench import files
from kbench.errors import ResultsError
from kbench.text.printable import NAME_LIMIT, REASON_LIMIT, printable

MAX_BYTES = 16 << 20
"""A longer file is not read. It contains the config, at most 1 MiB, and one more for every continuation of the run."""

MAX_VALUES = 20_000
MAX_DEPTH = 8

TEXT_ENTRIES = (
    "env_id", "device", "device_type", "device_id", "driver", "telemetry", "cuda", "hip", "nvcc", "python", "platform",
    "kbench", "scope", "started_at", "finished_at", "profile", "baseline", "gcnArchName",
)  # fmt: skip

SWITCHES = ("triton_interpreter", "interrupted")

NUMBER_LIMITS = {
    "cache_bytes": 2**44, "total_memory": 2**50, "peak_gbps": 10**6, "cpu_count": 2**20, "multi_processor_count": 2**20,
    "other_processes": 2**31, "device_count": 2**20, "major": 2**20, "minor": 2**20,
}  # fmt: skip
"""Entries that are numbers. Each must be at least 0 and below this limit."""

MAPPING_ENTRIES = (
    "limits",
    "packages",
    "variables",
    "measure",
    "git",
    "config",
    "environments",
    "places",
    "locked_clocks",
)
LIST_ENTRIES = ("command", "plugin_errors", "continued")

TYPED_MAPPINGS = ("packages", "variables", "config", "git", "environments", "continued", "places")
"""Mappings in which kbench checks the types of the values."""

LONG_ENTRIES = ("command", "plugin_errors", "variables", "config", "continued", "environments")
"""Entries that may contain paths and messages. Their texts are cut at a higher limit."""

KNOWN_FROM_CSV = "kbench knows the machine only from the CSV"


class Sidecar(NamedTuple):
    """The content of an environment file.

    environment  the valid entries
    note         what is wrong with the file; "" if nothing is
    there        whether the file exists
    """

    environment: dict[str, Any]
    note: str
    there: bool


def environment_path(csv: Path | str) -> Path:
    """`results/softmax.csv` -> `results/softmax.env.json`"""
    return Path(csv).with_suffix(".env.json")


def on_one_device(environment: Mapping[str, Any]) -> bool:
    """Whether rows were measured on one device, without --devices and --scheduler."""
    return bool(environment.get("scope", "device") == "device")


def read_environment(csv: Path | str) -> Sidecar:
    """The environment of a results CSV.

    A missing or damaged file is not an error, because a CSV is useful without it. The note says what is wrong.
    """
    path = environment_path(csv)
    try:
        environment, left_out = read_entries(path)
    except FileNotFoundError:
        return Sidecar({}, printable(f"{path}: no such file; {KNOWN_FROM_CSV}"), False)
    except ResultsError as error:
        return Sidecar({}, f"{error}; {KNOWN_FROM_CSV}", True)
    return Sidecar(environment, nonsense(path, left_out), True)


def read_entries(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The valid entries of an environment file, and the names of the invalid entries, which are left out.

    Raises FileNotFoundError, and ResultsError for a file that cannot be read.
    """
    try:
        data = json.loads(files.read_text(path, MAX_BYTES))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror})") from None
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path}:{error.lineno}: not readable as JSON ({error.msg})") from None
    except RecursionError:
        raise ResultsError(f"{path}: not an environment file, it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ResultsError(f"{path}: not an environment file, it is not UTF-8 text") from None
    except ValueError:  # a number with thousands of digits
        raise ResultsError(f"{path}: not an environment file, a number in it is too long") from None
    if not isinstance(data, dict):
        raise ResultsError(f"{path}: not an environment file")
    reader = _Reader()
    found = reader.mapping(data, "", 0)
    if reader.count > MAX_VALUES:
        raise ResultsError(f"{path}: not an environment file, it has more than {MAX_VALUES:,} values")
    return found, reader.left_out


def nonsense(path: Path, left_out: list[str]) -> str:
    """A sentence that names the invalid entries of a file; "" if there are none."""
    if not left_out:
        return ""
    names = ", ".join(left_out[:4]) + (f" and {len(left_out) - 4} more" if len(left_out) > 4 else "")
    return printable(f"{path}: kbench ignores these invalid entries: {names}")


class _Reader:
    """Copies valid entries. `left_out` names the others, and `count` is the number of values read."""

    def __init__(self) -> None:
        self.left_out: list[str] = []
        self.count = 0

    def mapping(self, data: Mapping[str, Any], above: str, depth: int) -> dict[str, Any]:
        found = {}
        for key, value in data.items():
            name = f"{above}{printable(key, NAME_LIMIT)}"
            self.count += 1
            if self.count > MAX_VALUES:
                break
            if depth == MAX_DEPTH or not _fits(name, value):
                self.left_out.append(name)
            elif (kept := self.value(value, name, depth)) is not None or value is None:
                found[name.removeprefix(above)] = kept
        return found

    def value(self, value: Any, name: str, depth: int) -> Any:
        """A safe copy of a value, without its invalid entries."""
        if isinstance(value, dict):
            return self.mapping(value, f"{name}.", depth + 1)
        if isinstance(value, list):
            kept = []
            for number, element in enumerate(value):
                self.count += 1
                if self.count > MAX_VALUES:
                    break
                entry = f"{name}.{number}"
                if depth == MAX_DEPTH or not _fits(entry, element):
                    self.left_out.append(entry)
                else:
                    kept.append(self.value(element, entry, depth + 1))
            return kept
        return _text(value, name) if isinstance(value, str) else value


def _fits(name: str, value: Any) -> bool:
    """Whether the type and range of a value suit the name of its entry. None is always valid; it means unknown."""
    top, _, rest = name.partition(".")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not _plausible(value):
        return False
    if value is None or (rest and top not in TYPED_MAPPINGS):
        return True
    if not rest:
        if name in NUMBER_LIMITS:
            return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < NUMBER_LIMITS[name]
        kinds = {**dict.fromkeys(TEXT_ENTRIES, str), **dict.fromkeys(SWITCHES, bool)}
        kinds |= {**dict.fromkeys(MAPPING_ENTRIES, dict), **dict.fromkeys(LIST_ENTRIES, list)}
        return isinstance(value, kinds.get(name, object))
    if top in ("packages", "variables", "config", "places"):
        return isinstance(value, str)
    if top == "git":
        return isinstance(value, bool if rest == "dirty" else str)
    return "." in rest or isinstance(value, dict)  # `environments` and `continued` hold mappings


def _plausible(value: float) -> bool:
    """Whether a number fits into 64 bits. NaN and infinity do not."""
    return -(2**63) <= value < 2**63


def _text(text: str, name: str) -> str:
    if name.endswith("config.text"):
        return "\n".join(printable(line) for line in text.split("\n"))
    return printable(text, REASON_LIMIT if name.partition(".")[0] in LONG_ENTRIES else NAME_LIMIT)
