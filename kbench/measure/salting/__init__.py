"""Salts: changes of the inputs before every timed call, and the check of what timed calls returned."""
