"""The program `kbench`, which is `python -m kbench` too."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m kbench` has the working folder first in the path, where a queue.py may lie. kbench itself is found by now.
    del sys.path[0]

from kbench import interrupts


def main() -> None:
    interrupts.end_at_once()
    from kbench.cli import main as run

    interrupts.raise_on_signals()
    run()


if __name__ == "__main__":
    main()
