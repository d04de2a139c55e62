"""The program `kbench`, which is `python -m kbench` too. The signals that end it are looked after before anything else."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m kbench` has the working folder first in the path, where a queue.py may lie. kbench itself is found by now.
    del sys.path[0]

from kbench import interrupts


def main() -> None:
    interrupts.raise_on_signals()
    with interrupts.while_importing():
        from kbench.cli import main as run
    run()


if __name__ == "__main__":
    main()
