"""What an operator says of its mathematics, for the kernels in this folder."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple


class Mathematics(NamedTuple):
    """Triton functions of an operator. `forward_kernels.py` and `backward_kernels.py` say what each takes and returns.

    `pivot` is whether the terms are differences from a pivot. `row_sums` is the number of terms, and of row terms.
    `column_sums` is the number of column terms: one for each weight that has a gradient.
    """

    value: Any
    terms: Any
    statistics: Any
    results: Any
    pivot: bool
    normalised: Any
    row_terms: Any
    column_terms: Any
    gradient: Any
    row_sums: int
    column_sums: int

    @cache  # noqa: B019 there is one for each operator
    def constants(self) -> dict[str, Any]:
        """The functions, by the names that they have as arguments of the kernels."""
        return {name.upper(): value for name, value in self._asdict().items()}
