"""Attention: the operator, and its providers, which register when they are imported."""

from kbench.operators.attention import providers_libraries, providers_triton
from kbench.operators.attention.operator import attention

__all__ = ["attention", "providers_libraries", "providers_triton"]
