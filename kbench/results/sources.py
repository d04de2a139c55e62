"""Which results file an argument of a command means."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from kbench.errors import ResultsError
from kbench.results.reader import is_results_header

_MOVED_ASIDE = re.compile(r"\.\d{8}-\d{6}(-\d+)?\.")


def parse_source(source: Path | str) -> tuple[str, Path]:
    """The label and the path of an argument: `new=runs/b.csv` is runs/b.csv with the label "new". An argument without a label,
    or one that is itself the name of a file, has the label ""."""
    label, equals, path = str(source).partition("=")
    if equals and label and path and not Path(source).exists():
        return label, results_file(Path(path))
    return "", results_file(Path(source))


def results_file(path: Path) -> Path:
    """The path of a results file, or the only results file of the folder that the path names: `--out` makes folders. Raises
    ResultsError for a folder with none or several."""
    if not path.is_dir():
        return path
    files = _results_files(path)
    if len(files) > 1:
        names = ", ".join(str(file) for file in sorted(files))
        raise ResultsError(f"{path}: is a folder with {len(files)} results files; name one of them: {names}")
    return files[0]


def newest(folder: Path) -> Path:
    """The newest results file of a folder. Raises ResultsError if there is none."""
    return max(_results_files(folder), key=lambda path: (path.stat().st_mtime_ns, path.name))


def _results_files(folder: Path) -> list[Path]:
    """The results files of a folder, without earlier runs that were moved aside and without other CSVs. Raises ResultsError
    if there is none."""
    files = [
        path
        for path in folder.glob("*.csv")
        if path.is_file() and not _MOVED_ASIDE.search(path.name) and not _is_other_csv(path)
    ]
    if not files:
        raise ResultsError(f"{folder}: no results file here; run `kbench run CONFIG` first, or name a CSV")
    return files


def _is_other_csv(path: Path) -> bool:
    """Whether a file has a header, and not that of results: `kbench compare --export csv=FILE` may have written it."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, csv.Error):  # whoever reads its rows says why
        return False
    return bool(header) and not is_results_header(header)
