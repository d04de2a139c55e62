"""Secrets, the home folder and the user's name, left out of what kbench records.

People pass env.json files and reports on, and commit them. What is recorded there is about the machine and the code.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

HIDDEN = "(hidden)"

_SECRET = re.compile(r"TOKEN|PASS|SECRET|KEY|CREDENTIAL|AUTH|PRIVATE|COOKIE|SIGNATURE|(^|_)(PW|PWD|PAT|DSN)(_|$)", re.I)
_IN_URL = re.compile(r"(?<=://)[^/\s@\"']+(?=@)")
_ASSIGNED = re.compile(r"(-*[\w.-]+)=(?=.)", re.S)


def is_secret(name: str) -> bool:
    """Whether a variable or an option of this name may hold a secret."""
    return bool(_SECRET.search(name))


def text(words: str) -> str:
    """The text with `(hidden)` for the user and password of a URL, `~` for the home folder and `(user)` for a folder that
    is called as the user."""
    words = _IN_URL.sub(HIDDEN, words)
    for pattern, instead in _places():
        words = pattern.sub(instead, words)
    return words


def variables(found: Mapping[str, str]) -> dict[str, str]:
    """Environment variables by name; `(hidden)` instead of the value where the name says that it is a secret."""
    return {name: HIDDEN if is_secret(name) else text(value) for name, value in found.items()}


def command(words: Sequence[str]) -> list[str]:
    """A command line as it may be recorded."""
    shown = []
    for word in words:
        assigned = _ASSIGNED.match(word)
        secret = assigned and is_secret(assigned[1])
        shown.append(f"{assigned[1]}={HIDDEN}" if assigned and secret else text(word))
    return shown


@cache
def _places() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What to look for in a path, and what stands there instead."""
    found = []
    try:
        home = Path.home()
        homes = {str(home), str(home.resolve())}
    except (OSError, RuntimeError):  # nobody knows where it is
        homes = set()
    for folder in sorted(homes, key=len, reverse=True):
        if len(Path(folder).parts) > 1:  # not "/", which some containers call home
            found.append((re.compile(re.escape(folder) + r"(?![\w.-])"), "~"))
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name, as in some containers
        user = ""
    if user:
        found.append((re.compile(r"(?<=[/\\])" + re.escape(user) + r"(?=[/\\\s\"':,;)]|$)"), "(user)"))
    return tuple(found)
