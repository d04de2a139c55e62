"""GELU: the operator, and its providers, which register when they are imported."""

from kbench.operators.gelu import providers_cuda, providers_triton
from kbench.operators.gelu.operator import gelu

__all__ = ["gelu", "providers_cuda", "providers_triton"]
