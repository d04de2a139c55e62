"""Cross-entropy: the operator, and its providers, which register when they are imported."""

from kbench.operators.cross_entropy import operator, providers_cuda, providers_triton  # noqa: F401
