"""GELU: the operator, and its providers, which register when they are imported."""

from kbench.operators.gelu import operator, providers_cuda, providers_triton  # noqa: F401
