"""Residual sum and RMS normalisation: the operator, and its providers, which register when they are imported."""

from kbench.operators.add_rmsnorm import operator, providers_kernels  # noqa: F401
