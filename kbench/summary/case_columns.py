"""The columns of a table that tell its cases apart, and what all cases of the table have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kbench.analysis import CaseKey
from kbench.results.case import Case
from kbench.results.timers import DEFAULT_TIMER

DEFAULT_CONDITIONS = {"timer": DEFAULT_TIMER, "cache": "cold"}
"""Conditions that titles do not mention."""

Notes = Mapping[str, Mapping[CaseKey, str]]
"""Columns of cases that do not belong to their identity: cells by column and case."""

NO_NOTES: Notes = {}


def axes_of_words(cases: Sequence[Case]) -> tuple[str, ...]:
    """The axes whose values are no numbers, such as `mode`."""
    named = (name for case in cases for name, value in case.axes.items() if isinstance(value, (str, bool)))
    return tuple(dict.fromkeys(named))


class CaseColumns:
    """The columns that differ between the cases of a table (`names`), those axes that hold words or booleans (`words`), and the
    values that all cases share (`shared`)."""

    def __init__(self, cases: Sequence[tuple[Case, CaseKey]], notes: Notes = NO_NOTES) -> None:
        self.names: list[str] = []
        shared = []
        for name, of in self._columns(cases, notes).items():
            values = list(dict.fromkeys(of(case, key) for case, key in cases))
            if len(values) > 1:
                self.names.append(name)
            elif values and values[0] and values[0] != DEFAULT_CONDITIONS.get(name):
                shared.append(
                    values[0] if name in ("operator", "dtype", "device") else self._with_name(name, values[0])
                )
        self.shared = ", ".join(shared)
        self.words = axes_of_words([case for case, _ in cases])
        self._of = self._columns(cases, notes)

    @staticmethod
    def _with_name(name: str, value: str) -> str:
        return f"{name} {value}" if name in ("timer", "cache") else f"{name}={value}"

    @staticmethod
    def _columns(cases: Sequence[tuple[Case, CaseKey]], notes: Notes) -> dict[str, Callable[[Case, CaseKey], str]]:
        axes = dict.fromkeys(name for case, _ in cases for name in case.axes)
        return {
            "operator": lambda case, key: case.operator,
            **{name: lambda case, key, name=name: str(case.axes.get(name, "")) for name in axes},  # type: ignore[misc]
            **{name: lambda case, key, cells=cells: cells.get(key, "") for name, cells in notes.items()},  # type: ignore[misc]
            "dtype": lambda case, key: case.dtype,
            "device": lambda case, key: key.device,
            "timer": lambda case, key: key.timer,
            "cache": lambda case, key: key.cache,
        }

    def cells(self, case: Case, key: CaseKey) -> list[str]:
        """The cells of one case, one for each of `names`."""
        return [self._of[name](case, key) for name in self.names]
