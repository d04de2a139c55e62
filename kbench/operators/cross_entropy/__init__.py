"""Cross-entropy: the operator, and its providers, which register when they are imported."""

from kbench.operators.cross_entropy import providers_cuda, providers_triton
from kbench.operators.cross_entropy.operator import cross_entropy

__all__ = ["cross_entropy", "providers_cuda", "providers_triton"]
