"""Row-wise softmax: the operator, and its providers, which register when they are imported."""

from kbench.operators.softmax import operator, providers_cuda, providers_triton  # noqa: F401
