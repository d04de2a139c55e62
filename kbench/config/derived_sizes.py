"""Finds the cases of a sweep for which a tensor has no shape: `N/2` has no value at an odd N.

Only sizes that are arithmetic are looked at, and each only at the values of its own axes. So a sweep of a million cases takes
no longer than its largest axis does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbench.contract.sizes import SizeError, axes_of, evaluate
from kbench.protocol import OperatorInfo


def without_value(operator: OperatorInfo, product: Mapping[str, Sequence[Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """The first point of a cross product at which a size has no value, and what is wrong there: one for each such size.

    `product` has the values of every column. A point holds the axes of the size only.
    """
    seen = set(operator.axes)
    for kind, tensors in (("input", operator.inputs), ("output", operator.outputs)):
        for tensor, layout in tensors.items():
            for size in layout.sizes:
                if size not in seen:
                    seen.add(size)
                    yield from _first(size, f"{kind} {tensor}", product)


def _first(size: str, what: str, product: Mapping[str, Sequence[Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    axes = axes_of(size)
    names = [name for name in product if name in axes]
    for values in itertools.product(*(product[name] for name in names)):
        point = dict(zip(names, values, strict=True))
        try:
            evaluate(size, point)
        except SizeError as error:
            yield point, f"{error}, so {what} has no shape"
            return
