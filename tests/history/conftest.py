"""Fixtures of the tests of histories."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test writes hundreds of files that need not survive a power failure."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
