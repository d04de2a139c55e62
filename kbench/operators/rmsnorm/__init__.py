"""RMS normalisation: the operator, and its providers, which register when they are imported."""

from kbench.operators.rmsnorm import providers_kernels
from kbench.operators.rmsnorm.operator import rmsnorm

__all__ = ["providers_kernels", "rmsnorm"]
