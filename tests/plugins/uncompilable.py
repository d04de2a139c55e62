"""A Triton kernel with a fault that its compiler finds. It is compiled for a device that need not be here."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

import kbench

softmax = kbench.operator("softmax")


def kernel(x, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x + offsets, undefined_name(offsets))  # noqa: F821


@softmax.provider("does-not-compile", requires="triton")
def does_not_compile(x):
    source = ASTSource(JITFunction(kernel), {"x": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 64})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
