"""Measures the lines of a script: closures without declared inputs, and without a reference to check them with."""
