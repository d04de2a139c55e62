"""A CUDA kernel of your own, beside kbench's providers of add_rmsnorm: three inputs, two outputs, and eps.

kbench check examples/add_rmsnorm_cuda.yaml
kbench run examples/add_rmsnorm_cuda.yaml
"""

from pathlib import Path

import torch

import kbench

add_rmsnorm = kbench.operator("add_rmsnorm")

# torch compiles the file, with nvcc, when a provider asks for a kernel for the first time.
source = kbench.CudaSource(Path(__file__).with_name("add_rmsnorm.cu"))

# What the decorators below have in common. Without a GPU or without nvcc, the providers are "unavailable".
on_cuda = {"devices": ("cuda",), "available": source.missing_tools, "factory": True}


@add_rmsnorm.provider("cuda-row", **on_cuda)
def cuda_row(case, *, eps, threads=None):
    """A factory. Fetching the kernel builds it, which counts as `build_ms`. The inner function is timed."""
    kernel = source.kernel("add_rmsnorm", eps=eps, threads=threads)

    def run(x, residual, weight):
        y, h = torch.empty_like(x), torch.empty_like(x)
        kernel([x, residual, weight], [y, h])
        return y, h

    return run


@add_rmsnorm.provider("cuda-row-in-place", mutates={"residual": "h"}, **on_cuda)
def cuda_row_in_place(case, *, eps, threads=None):
    """After the call, residual holds the output h. The kernel allows that: it reads an element before it writes it."""
    kernel = source.kernel("add_rmsnorm", eps=eps, threads=threads)

    def run(x, residual, weight):
        y = torch.empty_like(x)
        kernel([x, residual, weight], [y, residual])
        return y

    return run


@add_rmsnorm.provider("cuda-row-out", out=["y", "h"], **on_cuda)
def cuda_row_out(case, *, eps, threads=None):
    """Writes into buffers that kbench has allocated before the call."""
    kernel = source.kernel("add_rmsnorm", eps=eps, threads=threads)
    return lambda x, residual, weight, *, y, h: kernel([x, residual, weight], [y, h])
