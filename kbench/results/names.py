"""Rules for the names of operators, providers, axes, choices and parameters.

A run writes these names to its CSV. Tables, pictures, comparisons, spreadsheets and `--resume` read them from there. So kbench
refuses a name that one of these readers could not use, in the plug-in or config that gives it.
"""

from __future__ import annotations

from kbench.results.case import Case
from kbench.results.row import LINE, csv_header
from kbench.text.printable import FORMULA_SIGNS, NAME_LIMIT


def fault(name: object) -> str:
    """The reason why this cannot be a name; "" for a valid name."""
    if not isinstance(name, str):
        return f"a name must be text, not {type(name).__name__}"
    if not name:
        return "a name must not be empty"
    if found := value_fault(name):
        return found
    if name != name.strip():
        return "a name must not begin or end with a blank"
    if name.startswith(FORMULA_SIGNS):
        return f"a name must not begin with {name[0]}, which spreadsheets take for a formula"
    return ""


def value_fault(text: str) -> str:
    """The reason why this cannot be the value of a parameter; "" for a valid value."""
    if len(text) > NAME_LIMIT:
        return f"{len(text)} characters are too many; at most {NAME_LIMIT} are allowed"
    if not text.isprintable():
        sign = next(sign for sign in text if not sign.isprintable())
        return f"the character U+{ord(sign):04X} is not printable"
    return ""


def taken(name: str) -> str:
    """The reason why an axis or a choice cannot have this name; "" if it can. It becomes a column of the results and an
    attribute of `Case`, so it must differ from the existing ones."""
    if name in csv_header([]):
        return "is a column of the results already"
    if name == LINE:
        return "is reserved for the line numbers of a results file"
    if name in CASE_NAMES:
        return "is an attribute of every Case already"
    return ""


CASE_NAMES = frozenset(name for name in (*dir(Case), *Case.__dataclass_fields__) if not name.startswith("_"))
