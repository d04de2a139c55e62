"""`kbench` as a program of its own on a made-up machine: `python tests/fake_program.py kbench run sweep.yaml`.

The environment says what the machine is like: a case takes FAKE_CASE_S seconds, and says in the file `measuring` that it
has begun. For tests of signals and of several runs at a time, which need processes but no worker.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def measure_slowly(task: object) -> None:
    """Wait in short sleeps. If a signal comes just before a sleep begins, Python handles it only when that sleep ends."""
    Path("measuring").write_text(str(os.getpid()))
    end = time.monotonic() + float(os.environ["FAKE_CASE_S"])
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))


if __name__ == "__main__":
    sys.argv.pop(0)
    from fake_executor import FakeMachine

    from kbench.__main__ import main
    from kbench.execute import prepare

    prepare.executor_for = FakeMachine(before=measure_slowly).executor_for
    main()
