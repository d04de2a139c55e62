"""Grouped matrix products: the operator, and its providers, which register when they are imported."""

from kbench.operators.grouped_matmul import providers_triton
from kbench.operators.grouped_matmul.operator import grouped_matmul

__all__ = ["grouped_matmul", "providers_triton"]
