"""How rows are cut into slices and blocks for the Triton kernels that use `row_slices.py`. Numbers only, without Triton."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from kbench.contract.provider import Unsupported
from kbench.kernels import triton_rows
from kbench.kernels.block_mailbox import row_mailbox
from kbench.kernels.cuda_driver import LARGEST_GRID
from kbench.kernels.triton_rows import power_of_two

MOST_PARTS = 128
"""The most slices of a row whose programs do not wait for each other. `waiting_team` is for those that do."""

TEAM_THREADS = 128
"""Threads of a program of `team`."""

SHORTEST_ODD_ROW = 64
"""A shorter row that does not consist of whole vectors is moved in smaller vectors; otherwise it would be all ends."""


class Matrix(NamedTuple):
    """A matrix as a launch sees it.

    vector   the elements that one access moves
    window   whether rows begin or end anywhere, not at multiples of a vector
    waiting  multiprocessors whose programs can wait for each other; 0 if programs cannot
    packed   whether 16-bit elements can stay packed in registers (see `still_packed` in row_slices.py)
    capped   whether to limit the registers of a thread
    cache_bytes  how many bytes the L2 cache has
    """

    rows: int
    columns: int
    itemsize: int
    vector: int
    window: bool
    warp_size: int = 32
    processors: int = 132
    waiting: int = 132
    packed: bool = True
    capped: bool = True
    cache_bytes: float = triton_rows.H200_CACHE_BYTES

    @property
    def width(self) -> int:
        """Lanes from the first vector of a row to the last."""
        return self.columns + (self.vector - 1 if self.window else 0)

    @property
    def row_bytes(self) -> int:
        return self.width * self.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the matrix."""
        return self.rows * self.columns * self.itemsize

    @property
    def load_policy(self) -> str:
        """The `eviction_policy` of loads."""
        return triton_rows.load_policy(self.bytes, self.cache_bytes)


class SliceLaunch(NamedTuple):
    """A launch of `parts` programs for every `constants["ROWS"]` rows. A program has a slice of `span` lanes, of which it reads
    `loops` steps of PIECES blocks twice, and holds the others. `options` are Triton's."""

    constants: dict[str, Any]
    options: dict[str, Any]
    parts: int = 1
    span: int = 0
    loops: int = 0

    def programs(self, rows: int) -> int:
        """Raises Unsupported if a launch cannot have as many programs as these rows need."""
        programs = math.ceil(rows / int(self.constants["ROWS"])) * self.parts
        if programs > LARGEST_GRID:
            raise Unsupported(f"needs {programs} programs; one launch has at most {LARGEST_GRID}")
        return programs


def common_vector(*matrices: torch.Tensor) -> int:
    """Elements that one access of each of these matrices moves: 16 bytes, or fewer if their rows differ in their distance from
    a multiple of 16 bytes, or if they are very short and do not consist of whole vectors."""
    first = matrices[0]
    (M, N), itemsize = first.shape, first.element_size()
    strides = [x.stride(0) if M > 1 else N for x in matrices]
    places = [x.data_ptr() // itemsize for x in matrices]
    vector = math.gcd(16 // itemsize, *places, *(stride - strides[0] for stride in strides))
    return vector if N >= SHORTEST_ODD_ROW else math.gcd(vector, N, strides[0])


def matrix_of(*matrices: torch.Tensor) -> Matrix:
    """What a launch needs to know of matrices of the same shape, which a kernel reads or writes side by side."""
    x, vector = matrices[0], common_vector(*matrices)
    (M, N), stride = x.shape, matrices[0].stride(0) if matrices[0].shape[0] > 1 else 0
    window = bool(N % vector or stride % vector)
    packed = x.device.type == "cuda" and torch.version.hip is None and x.element_size() == 2
    warp_size, processors = triton_rows.warp_size(x.device), triton_rows.multiprocessors(x.device)
    waiting = triton_rows.waiting_multiprocessors(x.device)
    capped, cache_bytes = triton_rows.caps_registers(x.device), triton_rows.cache_bytes(x.device)
    return Matrix(M, N, x.element_size(), vector, window, warp_size, processors, waiting, packed, capped, cache_bytes)


def whole_row(x: Matrix, accesses: int, fewest_bytes: int = 2048) -> tuple[dict[str, int], int, int]:
    """Constants of a program that holds whole rows, its blocks of a row, and its warps.

    A thread has up to `accesses` accesses of a row. Rows of less than `fewest_bytes` share a program until it has that many.
    """
    a_warp = x.vector * x.warp_size
    warps = min(16 * 32 // x.warp_size, power_of_two(math.ceil(x.width / (a_warp * accesses))))
    block = min(power_of_two(x.width), a_warp * warps)
    together = min(x.warp_size, max(1, fewest_bytes // (power_of_two(x.width) * x.itemsize)))
    return {"ROWS": together, "BLOCK": block}, math.ceil(x.width / block), warps


def team(x: Matrix, blocks: int, parts: int | None = None) -> tuple[dict[str, int], int, int, int]:
    """The same for programs of 128 threads that share a row, and how many they are: `parts`, or enough for `blocks` blocks in
    each."""
    warps = TEAM_THREADS // x.warp_size
    block = x.vector * TEAM_THREADS
    parts = parts or math.ceil(x.width / (block * blocks))
    return {"ROWS": 1, "BLOCK": block}, math.ceil(span_of(x.width, parts) / block), warps, parts


def waiting_team(x: Matrix, blocks: tuple[int, ...], parts: int | None) -> tuple[dict[str, int], int, int, int] | None:
    """The same for programs that wait for each other, with the first of these numbers of blocks for which the device holds all
    programs of a row at once. None if it holds them for none. Raises Unsupported if it does not hold as many as `parts`."""
    most = triton_rows.largest_team(x.waiting, TEAM_THREADS)
    for count in blocks:
        found = team(x, count, parts)
        if found[-1] <= max(most, 1):
            return found
    if parts is not None:
        raise Unsupported(f"parts={parts}: on this device, at most {max(most, 1)} programs can share a row")
    return None


def words_read(parts: int) -> int:
    """The constant WIDTH of a kernel for rows in `parts` slices: the words that a program reads to join them, a multiple of
    GATHERED in row_slices.py; 1 if there is one slice."""
    return max(32, power_of_two(parts)) if parts > 1 else 1


def span_of(width: int, parts: int) -> int:
    """Lanes of a slice, if a row of `width` lanes has `parts` of them: a multiple of 64, so that slices begin with a vector."""
    return 64 * math.ceil(width / parts / 64)


def launch_slices(kernel: Any, launch: SliceLaunch, x: torch.Tensor, *arguments: Any) -> None:
    """Launch a kernel on the rows of x. After `arguments` it takes `words`, `parts`, `span` and `loops`, and its constants
    include TICKETS and PHASE: `split` in softmax/triton_kernels.py explains them. Raises Unsupported."""
    programs, words = launch.programs(x.shape[0]), x  # a kernel with one program per row does not look at the words
    if launch.parts > 1:
        words = row_mailbox(x.device, x.shape[0], launch.parts, "bit 31")
    tickets = launch.parts > 1 and programs > triton_rows.multiprocessors(x.device)
    # the interpreter runs one program after another, so all must publish before any waits
    for phase in (1, 2) if launch.parts > 1 and x.device.type == "cpu" else (0,):
        kernel[(programs,)](
            *arguments,
            words,
            launch.parts,
            launch.span,
            launch.loops,
            TICKETS=tickets,
            PHASE=phase,
            **launch.constants,
            **launch.options,
        )
