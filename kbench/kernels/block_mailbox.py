"""Mailboxes: 64-bit words in device memory through which the blocks of one launch exchange partial results."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable

import torch

from kbench.kernels import cuda_driver

STORE_WORDS = 2**22
"""Words zeroed in advance for launches in graphs. A graph that zeroed its own would do so at every replay, in about 2 us."""

TICKET_WORDS = 16
"""Words before those of the first row: the ticket counter, padded to a cache line."""

_kept: dict[tuple[torch.device, int, Hashable, bool], tuple[int | None, torch.Tensor]] = {}
_store: dict[torch.device, torch.Tensor] = {}
_taking = threading.Lock()


def mailbox(device: torch.device, count: int, layout: Hashable) -> torch.Tensor:
    """A mailbox of at least `count` words for a launch on the current stream of `device`.

    Its words are zero before the first launch with this `layout`. Every launch must leave them as the next launch with the
    same layout needs them. The launches of one stream run one after another, so they share a mailbox. Launches that are
    captured from one stream into one graph share one too. Two graphs may be replayed at the same time, so each has its own.
    """
    count = 16 * math.ceil(count / 16)  # slices of the store begin at cache lines
    stream, captured, capture = 0, False, None
    if device.type == "cuda":
        stream = torch.cuda.current_stream(device).cuda_stream
        captured = torch.cuda.is_current_stream_capturing()
        if captured:
            capture = cuda_driver.capture_id(stream)
        elif device not in _store:
            _store[device] = torch.zeros(STORE_WORDS, dtype=torch.int64, device=device)
            torch.cuda.synchronize(device)  # graphs may run on any stream
    before, mine = _kept.get((device, stream, layout, captured), (None, None))
    another = captured and (capture is None or capture != before)
    if mine is None or mine.numel() < count or another:
        mine = _from_store(device, count) if captured else torch.zeros(2 * count, dtype=torch.int64, device=device)
        _kept[device, stream, layout, captured] = capture, mine
    return mine


def row_mailbox(device: torch.device, rows: int, parts: int, marks: str) -> torch.Tensor:
    """The mailbox of a launch in which `parts` programs share each of `rows` rows.

    Every launch must leave it as the next one with the same `parts` and `marks` needs it; `split` in softmax/triton_kernels.py
    shows how. `marks` names the bit that tells launches apart: kernels that use different bits need different mailboxes.
    """
    return mailbox(device, TICKET_WORDS + rows * parts, ("triton", parts, marks))


def _from_store(device: torch.device, count: int) -> torch.Tensor:
    """`count` zeros that no launch has used. Several threads may capture graphs at the same time."""
    with _taking:
        store = _store.get(device)
        if store is not None and store.numel() >= count:
            _store[device] = store[count:]
            return store[:count]
    return torch.zeros(count, dtype=torch.int64, device=device)
