"""The error of a script or a problem folder that cannot be used."""

from __future__ import annotations


class SourceFault(Exception):
    """A source that cannot be used. `where` is the place in it: a file, with line and column where they are known."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where
