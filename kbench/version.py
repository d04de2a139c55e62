"""The version of kbench. A module of its own, so that everything can ask for it without importing the package's API."""

__version__ = "0.1.0"
