"""Checks of an output: inputs, the fp64 reference, and errors in units in the last place."""
