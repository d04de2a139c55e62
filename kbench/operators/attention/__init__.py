"""Attention: the operator, and its providers, which register when they are imported."""

from kbench.operators.attention import operator, providers_libraries, providers_triton  # noqa: F401
