"""Row-wise softmax: the operator, and its providers, which register when they are imported."""

from kbench.operators.softmax import providers_cuda, providers_triton
from kbench.operators.softmax.operator import softmax

__all__ = ["providers_cuda", "providers_triton", "softmax"]
