"""Measures rows of results files again: the unclear ones for `kbench compare --resolve`, one for `kbench run --repeat`."""
