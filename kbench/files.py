"""Replaces whole files, so that no reader sees half of one, and says which file cannot be written."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kbench.errors import ResultsError


def replace(path: Path, data: str | bytes) -> None:
    """Replace the content of a file with `data`, and make its folder. If that fails, it is unchanged. Raises ResultsError.

    A reader sees the old file or the new one, never a part. If `path` is a link, its target is replaced. A path that is not a
    regular file (`/dev/stdout`) is written to, not replaced.
    """
    content = data.encode("utf-8", "replace") if isinstance(data, str) else data
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                if target.exists():
                    shutil.copymode(target, temporary)
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path, advice: str = "choose another place") -> Iterator[None]:
    """Inside, an OSError becomes a ResultsError that names the file."""
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror or error}); {advice}") from None


def source_text(path: Path) -> str:
    """The text of a source file in any encoding, for hashing. Empty if it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    except OSError:
        return ""
