"""RMS normalisation: the operator, and its providers, which register when they are imported."""

from kbench.operators.rmsnorm import providers_cuda, providers_triton
from kbench.operators.rmsnorm.operator import rmsnorm

__all__ = ["providers_cuda", "providers_triton", "rmsnorm"]
