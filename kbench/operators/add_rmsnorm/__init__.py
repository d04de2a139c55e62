"""Residual sum and RMS normalisation: the operator, and its providers, which register when they are imported."""

from kbench.operators.add_rmsnorm import providers_kernels
from kbench.operators.add_rmsnorm.operator import add_rmsnorm

__all__ = ["add_rmsnorm", "providers_kernels"]
