"""`python -m kbench`, which also works uninstalled."""

from kbench.cli import main

main()
