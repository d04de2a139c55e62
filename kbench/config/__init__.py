"""A config file: YAML with source locations, its schema, and what its names mean on this machine.

`load` reads a YAML `document`, and merges profiles and `--set`. `schema` checks it, and the outcome is a `Config`. `resolve`
looks its names up in an operator, and writes its sizes out as the cases of a `Plan`.
"""
