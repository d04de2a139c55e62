"""Names of operators, providers, axes, choices and parameters: a results file and its readers must be able to hold them."""

from __future__ import annotations

from kbench.results.case import Case
from kbench.results.row import LINE, csv_header


def fault(name: object) -> str:
    """The reason why this cannot be a name; "" for a valid name."""
    if not isinstance(name, str):
        return f'a name must be text such as "mine", not a {type(name).__name__}'
    if not name or name != name.strip():
        return "a name must not be empty, nor begin or end with a blank"
    return value_fault(name)


def value_fault(text: str) -> str:
    """The reason why this cannot be the value of a parameter; "" for a valid value."""
    sign = next((sign for sign in text if not sign.isprintable()), "")
    return f"the character U+{ord(sign):04X} is not printable" if sign else ""


def taken(name: str) -> str:
    """The reason why an axis or a choice cannot have this name; "" if it can. It becomes a column of the results and an
    attribute of `Case`, so it must differ from the existing ones."""
    if name in csv_header():
        return "is a column of the results already"
    if name == "file":
        return "is reserved for the labels of results files"
    if name == LINE:
        return "is reserved for the line numbers of a results file"
    is_of_case = not name.startswith("_") and name in {*dir(Case), *Case.__dataclass_fields__}
    return "is an attribute of every Case already" if is_of_case else ""
