"""Grouped matrix products with kbench's Triton kernels: how they are launched, and how large their tiles are."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from kbench.contract.provider import Unsupported
from kbench.kernels.cuda_driver import LARGEST_GRID_Y
from kbench.kernels.triton_launch import has_descriptors, processors_of
from kbench.operators.grouped_matmul.operator import grouped_matmul

try:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from kbench.operators.grouped_matmul import triton_kernels as kernels
except ImportError:  # then kbench reports the provider `triton` as unavailable
    pass


class Tiles(NamedTuple):
    """Tokens (T), columns (N) and rows (K) of the tiles of x, w and y, warps of a program, and stages of its loop."""

    T: int
    N: int
    K: int
    warps: int
    stages: int

    @property
    def launch(self) -> dict[str, int]:
        blocks = {"BLOCK_T": self.T, "BLOCK_N": self.N, "BLOCK_K": self.K}
        return {**blocks, "num_warps": self.warps, "num_stages": self.stages}


WITH_DESCRIPTORS = {"products": Tiles(128, 256, 64, 8, 4), "gradients": Tiles(64, 256, 128, 8, 3)}
WITH_POINTERS = {"products": Tiles(128, 128, 32, 8, 3), "gradients": Tiles(32, 128, 128, 8, 3)}
"""The tiles of each kernel for 16-bit elements. They are the largest for which no register spills on the devices of
test_triton_builds.py."""

IN_FLOAT32 = Tiles(32, 32, 32, 4, 1)
"""Without tensor cores: right, and slow."""


def tiles_of(kernel: str, x: Tensor, chosen: str | None, descriptors: bool) -> Tiles:
    """The tiles of a kernel: those that a config has chosen, as in `128x256x64x8x4`, or those of the tables."""
    if chosen:
        return Tiles(*map(int, chosen.split("x")))
    if x.element_size() == 4:
        return IN_FLOAT32
    return (WITH_DESCRIPTORS if descriptors else WITH_POINTERS)[kernel]


def describable(*tensors: Tensor) -> bool:
    """Whether the device has a tensor memory accelerator that can read these tensors. The interpreter does as if."""
    if not has_descriptors(tensors[0].device):
        return False
    aligned = all(x.data_ptr() % 16 == 0 and x.stride(-1) == 1 and x.numel() for x in tensors)
    return aligned and all(n and n * x.element_size() % 16 == 0 for x in tensors for n in x.stride()[:-1])


def tiled(x: Tensor, rows: int, columns: int, descriptors: bool) -> Any:
    """One matrix or several as the kernels take them, for tiles of these sizes."""
    matrices = x if x.dim() == 3 else x[None]
    if descriptors:
        return TensorDescriptor.from_tensor(matrices, [1, rows, columns])
    return (x, *matrices.stride(), *matrices.shape[1:])


def multiplied(x: Tensor, w: Tensor, ends: Tensor, chosen: str | None, transposed: bool) -> Tensor:
    """The product of each token with the matrix of its expert, or with its transpose."""
    T, K = x.shape
    N = w.shape[1 if transposed else 2]
    y = x.new_empty(T, N)
    if y.numel():
        descriptors = describable(x, w)
        tiles = tiles_of("products", x, chosen, descriptors)
        of_matrix = (tiles.N, tiles.K) if transposed else (tiles.K, tiles.N)
        left, right = tiled(x, tiles.T, tiles.K, descriptors), tiled(w, *of_matrix, descriptors)
        most = (-(-T // tiles.T) + len(w)) * -(-N // tiles.N)
        grid = (min(most, processors_of(x.device).multiprocessors),)
        kernels.products[grid](y, left, right, ends.contiguous(), len(w), K, N, TRANSPOSED=transposed, **tiles.launch)
    return y


@grouped_matmul.provider("triton", requires="triton")
def triton_products(x: Tensor, w: Tensor, ends: Tensor, *, products: str | None = None) -> Tensor:
    return multiplied(x, w, ends, products, transposed=False)


@grouped_matmul.backward("triton")
def triton_backward(
    d_y: Tensor, x: Tensor, w: Tensor, ends: Tensor, *, products: str | None = None, gradients: str | None = None
) -> tuple[Tensor, Tensor]:
    E, K, N = w.shape
    d_w = w.new_empty(w.shape)
    if d_w.numel():
        if E > LARGEST_GRID_Y:
            raise Unsupported(f"E={E}; one launch has at most {LARGEST_GRID_Y} experts")
        descriptors = describable(x, d_y)
        tiles = tiles_of("gradients", x, gradients, descriptors)
        tokens, received = tiled(x, tiles.T, tiles.K, descriptors), tiled(d_y, tiles.T, tiles.N, descriptors)
        kernels.matrix_gradients[-(-K // tiles.K) * -(-N // tiles.N), E](
            d_w, tokens, received, ends.contiguous(), K, N, **tiles.launch
        )
    return multiplied(d_y, w, ends, products, transposed=True), d_w
