"""Grouped matrix products: the operator, and its providers, which register when they are imported."""

from kbench.operators.grouped_matmul import operator, providers_triton  # noqa: F401
