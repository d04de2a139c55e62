"""Normalisation of the rows of a matrix in Triton, forward and backward. An operator adds its mathematics as functions."""
