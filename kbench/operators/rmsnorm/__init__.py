"""RMS normalisation: the operator, and its providers, which register when they are imported."""

from kbench.operators.rmsnorm import operator, providers_kernels  # noqa: F401
