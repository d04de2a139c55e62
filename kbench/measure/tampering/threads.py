"""Python threads that go on working after a call has returned."""

from __future__ import annotations

import sys
import threading
import time

from kbench.measure.tampering.audit import in_python

GRACE_S = 5e-5
"""How long a thread may take to come to rest after it has delivered what the call waits for."""


def working() -> dict[int, str]:
    """Other Python threads in whose innermost frame the code of somebody runs, by identifier, with their names. A thread
    that waits in Python's own code, as the threads of an idle pool do, does not count."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    this_thread = threading.get_ident()
    return {
        identifier: names.get(identifier, f"thread {identifier}")
        for identifier, frame in sys._current_frames().items()
        if identifier != this_thread and not in_python(frame.f_code.co_filename)
    }


def left_working(before: dict[int, str]) -> str | None:
    """What to report if threads work that did not work before the call, as `before` says; None if there are none."""
    if not working().keys() - before.keys():
        return None
    time.sleep(GRACE_S)
    late = {identifier: name for identifier, name in working().items() if identifier not in before}
    return f"left work on another thread when the call returned: {', '.join(sorted(late.values()))}" if late else None
