"""Layer normalisation: the operator, and its providers, which register when they are imported."""

from kbench.operators.layernorm import operator, providers_kernels  # noqa: F401
