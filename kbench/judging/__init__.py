"""Judges the providers of one file: whether they are right, whether they can be trusted, and how fast they are."""
