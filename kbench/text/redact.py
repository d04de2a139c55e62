"""Removes secrets, the path of the home folder and the user's name from what kbench records.

People share env.json files and reports, and commit them. These files describe the machine and the code, not the user.
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


def redact_text(words: str) -> str:
    """The text with `(hidden)` in place of the user and password of a URL, `~` in place of the home folder, and `(user)` in
    place of a folder that has the user's name."""
    words = _IN_URL.sub(HIDDEN, words)
    for pattern, instead in _places():
        words = pattern.sub(instead, words)
    return words


def variables(found: Mapping[str, str]) -> dict[str, str]:
    """Environment variables by name. The value is `(hidden)` if the name suggests a secret."""
    return {name: HIDDEN if is_secret(name) else redact_text(value) for name, value in found.items()}


def command(words: Sequence[str]) -> list[str]:
    """A command line without secrets: `--token=abc` becomes `--token=(hidden)`."""
    shown = []
    for word in words:
        assigned = _ASSIGNED.match(word)
        secret = assigned and is_secret(assigned[1])
        shown.append(f"{assigned[1]}={HIDDEN}" if assigned and secret else redact_text(word))
    return shown


@cache
def _places() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Pairs of a pattern to look for in a path and the text that replaces it."""
    found = []
    try:
        home = Path.home()
        homes = {str(home), str(home.resolve())}
    except (OSError, RuntimeError):  # the home folder is unknown
        homes = set()
    for folder in sorted(homes, key=len, reverse=True):
        if len(Path(folder).parts) > 1:  # some containers have "/" as the home folder
            found.append((re.compile(re.escape(folder) + r"(?![\w.-])"), "~"))
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user id has no name, as in some containers
        user = ""
    if user:
        found.append((re.compile(r"(?<=[/\\])" + re.escape(user) + r"(?=[/\\\s\"':,;)]|$)"), "(user)"))
    return tuple(found)
