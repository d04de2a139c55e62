"""SwiGLU: the operator, and its providers, which register when they are imported."""

from kbench.operators.swiglu import providers_libraries, providers_torch, providers_triton
from kbench.operators.swiglu.operator import swiglu

__all__ = ["providers_libraries", "providers_torch", "providers_triton", "swiglu"]
