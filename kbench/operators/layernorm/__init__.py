"""Layer normalisation: the operator, and its providers, which register when they are imported."""

from kbench.operators.layernorm import providers_kernels
from kbench.operators.layernorm.operator import layernorm

__all__ = ["layernorm", "providers_kernels"]
