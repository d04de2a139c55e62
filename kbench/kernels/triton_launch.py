"""How kbench's Triton kernels are launched: what a launch asks of the device, how rows are divided over programs and blocks,
and `Launcher`, which decides once for each shape. Importing it does not need Triton; `triton_rows.py` is the side of the
kernels."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kbench.contract.provider import Unsupported
from kbench.kernels import cuda_driver
from kbench.kernels.cuda_driver import LARGEST_GRID
from kbench.kernels.matrices import require_dense

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case

LARGEST_BLOCK = 2**20
"""Elements that Triton allows in one tensor."""

KEPT_CACHES = 2
"""`kKeptCaches` of device.cuh. Kernels ask the L2 cache to keep their input if a matrix is more than this many times as large
as the cache. That makes them faster. With smaller matrices, it makes the next kernel slower by as much or more: see
docs/kernels.md."""

WAITING_THREADS = 256
"""Threads of a multiprocessor that surely find a place at once, whatever registers they take. If a program waited for more
programs than the device holds at once, it might wait forever."""

TEAM_THREADS = 128
"""Threads of a program that shares a row with others."""

HELD_BYTES, SPREAD_BYTES = 2**15, 2**14
"""Where gradients are computed, a program holds a row of at most the first number of bytes. Programs share a longer row, and
also one of more than the second number of bytes if all of them are on the device at once."""

FEW_PROGRAMS = 64
"""Slices have 4 blocks instead of 8 if there would be fewer programs than this."""

PROGRAMS_BEFORE_SHARING = 4
"""Short rows share a program if each multiprocessor still has so many."""

SHORTEST_ODD_ROW = 64
"""A shorter row that does not consist of whole vectors is moved in smaller vectors; otherwise it would be all edges."""


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def whole_power(n: int) -> int:
    """The largest power of two that is at most n; 1 if there is none."""
    return 1 << (max(1, n).bit_length() - 1)


class Processors(NamedTuple):
    """What a launch asks of a device. The defaults are those of an H200.

    multiprocessors  each holds at least one program
    waiting          multiprocessors whose programs can wait for each other; 0 if programs cannot
    packs            whether 16-bit elements can stay packed in registers (see `still_packed` in triton_rows.py)
    caps             whether to limit the registers of a thread, for speed: where the compiler meets our limits without spilling
    cache_bytes      of the L2 cache; infinity where no hint to it was measured
    shared_bytes     of shared memory that a program can have for loads on the way; 0 if loads do not go there
    chains           whether a launch can begin before the one before it ends (programmatic dependent launch)
    """

    warp_size: int = 32
    multiprocessors: int = 132
    waiting: int = 132
    packs: bool = True
    caps: bool = True
    cache_bytes: float = 60 * 2**20
    shared_bytes: int = 227 * 2**10
    chains: bool = True

    def programs_at_once(self, threads: int) -> int:
        """Programs of so many threads that surely find a place at once, at least 1."""
        return max(1, self.waiting * max(1, WAITING_THREADS // threads))

    def load_policy(self, matrix_bytes: int) -> str:
        """The `eviction_policy` of the loads of a kernel that reads and writes matrices of so many bytes each."""
        return "evict_last" if matrix_bytes > KEPT_CACHES * self.cache_bytes else ""


@cache
def has_descriptors(device: torch.device) -> bool:
    """Whether a device has a tensor memory accelerator. The interpreter does as if."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    return device.type == "cpu" or (nvidia and torch.cuda.get_device_capability(device) >= (9, 0))


@cache
def processors_of(device: torch.device) -> Processors:
    """Those of a device with a number. On a host, where the interpreter runs programs one after another, a small device."""
    if device.type != "cuda":
        host = device.type == "cpu"
        waiting = 132 if host else 0
        return Processors(32, 4, waiting, packs=False, caps=host, cache_bytes=math.inf, shared_bytes=0, chains=False)
    properties: Any = torch.cuda.get_device_properties(device)
    nvidia = torch.version.hip is None
    return Processors(
        int(properties.warp_size),
        int(properties.multi_processor_count),
        int(properties.multi_processor_count),
        nvidia,
        nvidia and properties.major == 9,
        int(properties.L2_cache_size) if nvidia else math.inf,
        int(properties.shared_memory_per_block_optin) if nvidia else 0,
        nvidia and properties.major >= 9,
    )


def row_warps(block: int) -> int:
    """Warps for a row: 4, or 8 from a block of 2048 on, or 16 from 4096 on."""
    return 16 if block >= 4096 else 8 if block >= 2048 else 4


def long_rows(case: Case) -> str | None:
    """Why the rows of a case are too long for one block; None if they are not."""
    if case.N > LARGEST_BLOCK:
        return f"N > {LARGEST_BLOCK}: a row must fit into one Triton block, which holds at most that many elements"
    return None


class Matrix(NamedTuple):
    """A matrix as a launch sees it. `vector` are the elements that one access moves. With `edges`, rows begin or end anywhere,
    not at multiples of a vector."""

    rows: int
    columns: int
    itemsize: int
    vector: int
    edges: bool
    processors: Processors = Processors()

    @property
    def lanes(self) -> int:
        """From the first vector of a row to the last."""
        return self.columns + (self.vector - 1 if self.edges else 0)

    @property
    def row_bytes(self) -> int:
        return self.lanes * self.itemsize

    @property
    def bytes(self) -> int:
        return self.rows * self.columns * self.itemsize

    @property
    def packed(self) -> bool:
        """Whether elements stay packed in registers."""
        return self.processors.packs and self.itemsize == 2

    @property
    def load_policy(self) -> str:
        return self.processors.load_policy(self.bytes)


def matrix_of(*matrices: Tensor) -> Matrix:
    """What a launch needs to know of matrices of the same shape, which a kernel reads or writes side by side. An access moves
    16 bytes if every matrix begins at a multiple of 16 bytes and their strides differ by such multiples, otherwise the most
    for which both hold. It moves fewer if the rows are very short and do not consist of whole vectors. Raises Unsupported
    unless the elements of each row are next to each other."""
    x, itemsize = require_dense(matrices[0]), matrices[0].element_size()
    M, N = x.shape
    strides = [matrix.stride(0) if M > 1 else N for matrix in matrices]
    places = [matrix.data_ptr() // itemsize for matrix in matrices]
    vector = math.gcd(16 // itemsize, *places, *(stride - strides[0] for stride in strides))
    if N < SHORTEST_ODD_ROW:
        vector = math.gcd(vector, N, strides[0])
    edges = bool(N % vector or (M > 1 and strides[0] % vector))
    return Matrix(M, N, itemsize, vector, edges, processors_of(x.device))


class Division(NamedTuple):
    """How rows are divided. A program has `together` rows, or one of `slices` slices of a row, each of `span` lanes. It
    holds them in `blocks` blocks of `block` lanes. Of a longer slice it holds the last ones, and reads the others before in
    `loops` steps of `step` blocks. `registers` limits those of a thread."""

    together: int
    block: int
    blocks: int
    warps: int
    slices: int
    span: int
    registers: int | None = None
    step: int = 0

    @property
    def loops(self) -> int:
        return math.ceil((self.span - self.block * self.blocks) / (self.block * self.step)) if self.step else 0

    @property
    def constants(self) -> dict[str, int]:
        """WIDTH are the words that a program reads to join the slices of a row; 1 if there is one slice."""
        width = max(32, power_of_two(self.slices)) if self.slices > 1 else 1
        return {"WIDTH": width, "ROWS": self.together, "BLOCK": self.block}


def span_of(lanes: int, slices: int) -> int:
    """Lanes of a slice: a multiple of 64, so that slices begin with a vector."""
    return 64 * math.ceil(lanes / slices / 64)


def rows_together(x: Matrix, fewest_bytes: int) -> int:
    """Rows that share a program until it has so many bytes. If rows are few, each has a program of its own: then the latency of
    a row counts."""
    row = power_of_two(x.lanes)
    most = x.rows // (PROGRAMS_BEFORE_SHARING * x.processors.multiprocessors)
    fewest = 2 // row  # Triton packs pairs of elements, and does not compile that for a block of one
    return whole_power(min(x.processors.warp_size, fewest_bytes // (row * x.itemsize), max(fewest, most)))


def whole_rows(x: Matrix, accesses: int, fewest_bytes: int = 2048) -> Division:
    """A program holds a row, or several that share it, with up to `accesses` accesses of each thread."""
    a_warp = x.vector * x.processors.warp_size
    warps = min(512 // x.processors.warp_size, power_of_two(math.ceil(x.lanes / (a_warp * accesses))))
    block = min(power_of_two(x.lanes), a_warp * warps)
    together = rows_together(x, fewest_bytes)
    return Division(together, block, math.ceil(x.lanes / block), warps, 1, span_of(x.lanes, 1))


def sliced_rows(x: Matrix, blocks: int, slices: int | None = None) -> Division:
    """Programs of TEAM_THREADS share a row: so many, or enough for `blocks` blocks in each."""
    block = x.vector * TEAM_THREADS
    slices = slices or math.ceil(x.lanes / (block * blocks))
    span = span_of(x.lanes, slices)
    return Division(1, block, math.ceil(span / block), TEAM_THREADS // x.processors.warp_size, slices, span)


def waiting_rows(x: Matrix, blocks: tuple[int, ...], slices: int | None = None) -> Division | None:
    """The same for programs that wait for each other, with the first of these numbers of blocks for which the device surely
    holds all programs of a row at once. None if it holds them for none."""
    divisions = (sliced_rows(x, count, slices) for count in blocks)
    most = x.processors.programs_at_once(TEAM_THREADS)
    return next((division for division in divisions if division.slices <= most), None)


def held_whole(x: Matrix) -> bool:
    """Whether a program holds a row where gradients are computed."""
    programs = x.rows * math.ceil(x.lanes / (4 * x.vector * TEAM_THREADS))
    spread = x.row_bytes > SPREAD_BYTES and programs <= x.processors.multiprocessors
    return x.row_bytes <= HELD_BYTES and not spread


def few_programs(x: Matrix) -> bool:
    """Whether the rows have few programs if each has 8 blocks."""
    return x.rows * math.ceil(x.lanes / (8 * x.vector * TEAM_THREADS)) < FEW_PROGRAMS


def rows_in_steps(x: Matrix, blocks: int) -> Division:
    """A program of 512 threads has a row that it cannot hold. It holds so many blocks of it."""
    return Division(1, x.vector * 512, blocks, 512 // x.processors.warp_size, 1, span_of(x.lanes, 1), step=2)


class Words(NamedTuple):
    """The words of a mailbox through which the programs of a launch exchange results, and their layout."""

    size: int
    layout: Hashable


class Launch(NamedTuple):
    """One launch of a kernel, whose arguments are tensors, then `words` if it has this argument, then `numbers`, then
    `constants`. The argument is a mailbox, or None if no programs share a row. `options` are Triton's."""

    kernel: Any
    programs: int
    numbers: tuple[float, ...]
    constants: dict[str, Any]
    options: dict[str, Any]
    words: Words | None = None

    @property
    def waits(self) -> bool:
        """Whether the programs of a row wait for each other, as `triton_rows.py` explains."""
        return self.words is not None and "PHASE" in self.kernel.arg_names


def shared_words(M: int, slices: int) -> Words:
    """A ticket counter, and a word for each slice of each row."""
    return Words(TICKET_WORDS + M * slices, ("slices", slices))


def rows_launch(
    kernel: Any, x: Matrix, division: Division, numbers: tuple[float, ...], constants: dict[str, Any]
) -> Launch:
    """The launch of a kernel whose programs share rows of a matrix and wait for each other, if a row has several. It has these
    constants beside those of the matrix and the division."""
    words = shared_words(x.rows, division.slices) if division.slices > 1 else None
    programs = math.ceil(x.rows / division.together) * division.slices
    options = {"num_warps": division.warps}
    if division.registers:
        options["maxnreg"] = division.registers
    of_matrix = {"VEC": x.vector, "EDGES": x.edges, "POLICY": x.load_policy}
    return Launch(kernel, programs, numbers, {**division.constants, **of_matrix, **constants}, options, words)


class KeptLaunch:
    """A launch for tensors of which only the addresses differ. It keeps the compiled kernel of the first call: Triton needs up
    to 80 us to find it again, which is longer than many a kernel takes."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._run: Callable[..., None] | None = None

    def __call__(self, *tensors: Tensor | None) -> None:
        """Launch. Raises Unsupported if there are too many programs."""
        if self._run:
            self._run(*[x if x is None else x.data_ptr() for x in tensors])
        else:
            self._first_launch(tensors)

    def _first_launch(self, tensors: tuple[Tensor | None, ...]) -> None:
        launch, device = self._launch, next(x.device for x in tensors if x is not None)
        constants, options, grid = launch.constants, launch.options, launch.programs
        if grid > LARGEST_GRID:
            raise Unsupported(f"needs {grid} programs; one launch has at most {LARGEST_GRID}")
        # with at most one program per multiprocessor, no tickets are needed
        tickets = launch.waits and "TICKETS" in launch.kernel.arg_names
        if tickets and grid > processors_of(device).multiprocessors:
            constants = {**constants, "TICKETS": True}
        elif launch.waits and device.type == "cuda":
            options = {**options, "launch_cooperative_grid": True}
        words: tuple[Tensor | None, ...] = ()
        if "words" in launch.kernel.arg_names:
            words = (mailbox(device, *launch.words) if launch.words else None,)
        if launch.waits and device.type == "cpu":  # the interpreter runs one program after another
            for phase in (1, 2):
                launch.kernel[(grid,)](*tensors, *words, *launch.numbers, PHASE=phase, **constants, **options)
            return
        compiled: Any = launch.kernel[(grid,)](*tensors, *words, *launch.numbers, **constants, **options)
        if compiled is None:  # there is an interpreter, and no compiler
            return
        parameters = launch.kernel.params[len(tensors) + len(words) + len(launch.numbers) :]
        settings = [constants.get(parameter.name, parameter.default) for parameter in parameters]
        no_words = () if launch.words else words
        self._run = _launch_again(compiled, grid, device, launch.words, (*no_words, *launch.numbers, *settings))


def _launch_again(
    compiled: Any, grid: int, device: torch.device, words: Words | None, arguments: tuple[Any, ...]
) -> Callable[..., None]:
    """A function that launches a compiled kernel with the addresses of tensors, then a mailbox for `words`, then `arguments`.
    An address takes less time than a tensor, which Triton would look up in the driver. Launches have no hooks of Triton's."""
    from triton.runtime import driver

    run: Callable[..., None] = compiled.run
    current_stream: Callable[[int | None], int] = driver.active.get_current_stream
    number = device.index

    def launch(*addresses: int | None) -> None:
        stream = current_stream(number)
        run(grid, 1, 1, stream, compiled.function, compiled.packed_metadata, None, None, None, *addresses, *arguments)

    def launch_with_words(*addresses: int | None) -> None:
        assert words
        launch(*addresses, mailbox(device, *words).data_ptr())

    return launch_with_words if words else launch


def facts_of(tensors: tuple[Tensor | None, ...]) -> Hashable:
    """What Triton compiles a kernel for, and a launch is chosen by: two calls with the same facts take the same launch."""
    return tuple([x if x is None else (x.shape, x.stride(), x.dtype, x.data_ptr() & 15) for x in tensors])


class Launcher:
    """Launches what a function chooses. It chooses once for each shape, strides, dtype and alignment of the inputs.

    `choose(*outputs, *inputs, *settings)` returns the Launch of a call, and may raise Unsupported. It is not asked if a tensor
    is empty: then there is nothing to launch.
    """

    def __init__(self, choose: Callable[..., Launch]) -> None:
        self._choose = choose
        self._launches: dict[Hashable, KeptLaunch] = {}

    def __call__(self, outputs: tuple[Tensor, ...], inputs: tuple[Tensor | None, ...], *settings: Hashable) -> None:
        """`outputs` are new tensors without gaps, whose shapes and dtypes follow from the inputs. A tensor that a kernel
        overwrites is an input. The first of all tensors is not None."""
        first = (outputs or inputs)[0]
        assert first is not None
        key = (first.get_device(), settings, facts_of(inputs))
        launch = self._launches.get(key)
        if launch is None:
            if not all(x is None or x.numel() for x in (*outputs, *inputs)):
                return
            launch = self._launches[key] = KeptLaunch(self._choose(*outputs, *inputs, *settings))
        launch(*outputs, *inputs)


STORE_WORDS = 2**22
"""Words zeroed in advance for launches in graphs. A graph that zeroed its own would do so at every replay, in about 2 us."""

TICKET_WORDS = 16
"""Words before those of the first row: the ticket counter, padded to a cache line."""

_mailboxes: dict[tuple[torch.device, int, Hashable, bool], tuple[int | None, Tensor]] = {}
_store: dict[torch.device, Tensor] = {}
_taking = threading.Lock()


def mailbox(device: torch.device, count: int, layout: Hashable) -> Tensor:
    """A mailbox: at least `count` 64-bit words in device memory, for a launch on the current stream of `device`.

    Its words are zero before the first launch with this `layout`. Every launch must leave them as the next launch with the
    same layout needs them. The launches of one stream run one after another, so they share a mailbox. Launches that are
    captured from one stream into one graph share one too. Two graphs may be replayed at the same time, so each has its own.
    """
    count = 16 * math.ceil(count / 16)  # slices of the store begin at cache lines
    stream, captured, capture = 0, False, None
    if device.type == "cuda":
        stream = torch._C._cuda_getCurrentRawStream(device.index)
        captured = torch.cuda.is_current_stream_capturing()
        if captured:
            capture = cuda_driver.capture_id(stream)
        elif device not in _store:
            _store[device] = torch.zeros(STORE_WORDS, dtype=torch.int64, device=device)
            torch.cuda.synchronize(device)  # graphs may run on any stream
    before, box = _mailboxes.get((device, stream, layout, captured), (None, None))
    another = captured and (capture is None or capture != before)
    if box is None or box.numel() < count or another:
        box = _from_store(device, count) if captured else torch.zeros(2 * count, dtype=torch.int64, device=device)
        _mailboxes[device, stream, layout, captured] = capture, box
    return box


def _from_store(device: torch.device, count: int) -> Tensor:
    """`count` zeros that no launch has used. Several threads may capture graphs at the same time."""
    with _taking:
        store = _store.get(device)
        if store is not None and store.numel() >= count:
            _store[device] = store[count:]
            return store[:count]
    return torch.zeros(count, dtype=torch.int64, device=device)
