"""The program `kbench`, which is `python -m kbench` too. The signals that end it are looked after before anything else."""

from kbench import interrupts


def main() -> None:
    interrupts.raise_on_signals()
    with interrupts.while_importing():
        from kbench.cli import main as run
    run()


if __name__ == "__main__":
    main()
