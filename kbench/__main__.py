"""The program `kbench`, which is `python -m kbench` too. The signals that end it are looked after before anything else."""

from kbench import interrupts
from kbench.errors import ExitStatus


def main() -> None:
    interrupts.raise_on_signals()
    try:
        from kbench.cli import main as run
    except (KeyboardInterrupt, RuntimeError) as error:
        if not interrupts.is_interrupt(error):
            raise
        interrupts.end()  # the signal came in the middle of an import, where a traceback would help nobody
        raise SystemExit(ExitStatus.INTERRUPTED) from None
    run()


if __name__ == "__main__":
    main()
