"""A history folder: reads all files, and adds one.

kbench never changes a file of the folder. A file gets its name from its content and appears there whole or not at all. So two
processes can add at the same time without a lock, also on a network file system, and a merge of two git branches has no
conflicts. A file that was left half written by another program is named in a note and not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench import files
from kbench.errors import ResultsError
from kbench.history.storage.stored_run import StoredRun, load_stored
from kbench.results.stamps import digest

HISTORY_SUFFIX = ".history.json"
"""The end of the names of all files of a history. Other files may lie in the folder."""

LONGEST_SOURCE = 60
"""Characters of the name of the results file in the name of a stored file."""


@dataclass(frozen=True)
class HistoryFolder:
    """The runs of a folder, in the order in which they were measured. `notes` name the files that could not be read."""

    path: Path
    runs: tuple[StoredRun, ...]
    notes: tuple[str, ...] = ()


def read_history(path: Path) -> HistoryFolder:
    """The content of a folder. Raises ResultsError if it is no folder or has no file of a history."""
    advice = "`kbench history add RESULTS.csv DIR` makes a history"
    if not path.is_dir():
        what = "not a folder" if path.exists() else "no such folder"
        raise ResultsError(f"{path}: {what}; {advice}")
    found = read_files(path)
    if not found.runs:
        what = f"no file of a history here can be read: {found.notes[0]}" if found.notes else "no history here"
        raise ResultsError(f"{path}: {what}" if found.notes else f"{path}: {what}; {advice}")
    return found


def read_files(path: Path) -> HistoryFolder:
    """The content of a folder, which may be empty."""
    runs: list[tuple[str, str, StoredRun]] = []
    notes = []
    for file in sorted(path.glob(f"*{HISTORY_SUFFIX}")):
        if file.name.startswith("."):
            continue
        try:
            run = load_stored(file)
        except ResultsError as error:
            notes.append(str(error))
            continue
        runs.append((run.started_at, file.name, run))
    ordered = [run for *_, run in sorted(runs, key=lambda each: each[:2])]
    return HistoryFolder(path, tuple(_without_repeats(ordered)), tuple(notes))


def _without_repeats(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs without readings that an earlier one has: two processes may have added overlapping files at once."""
    seen: set[object] = set()
    kept = []
    for run in runs:
        fresh = [reading for reading in run.readings if reading.identity not in seen]
        seen.update(reading.identity for reading in fresh)
        if len(fresh) == len(run.readings):
            kept.append(run)
        elif fresh:
            kept.append(run.model_copy(update={"readings": fresh}))
    return kept


def add_file(path: Path, run: StoredRun) -> Path:
    """Write a run into a folder, which is made if it is missing. Returns the path of the new file. Raises ResultsError."""
    content = run.model_dump(mode="json", exclude={"added_at"}, exclude_defaults=True)
    stem = re.sub(r"[^\w.-]+", "-", Path(run.source).stem)[:LONGEST_SOURCE]
    moment = re.sub(r"[^0-9T]", "", run.started_at[:19])
    target = path / f"{moment}-{stem}-{digest(content)}{HISTORY_SUFFIX}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        files.replace(target, run.model_dump_json(exclude_defaults=True) + "\n")
    except OSError as error:
        what = error.strerror or str(error)
        raise ResultsError(f"{target}: cannot be written ({what}); choose another folder") from None
    return target
