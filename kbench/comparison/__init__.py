"""Compare results: join the rows of two sides, judge each pair, and list what else differs.

`compare.compare` makes a `model.Comparison` from results files: `join` pairs the rows, `drift` measures how the machine
changed, `change` computes the size of each change (with `stats`), and `judge` gives each row a `verdict`.
`presentation` turns a comparison into words and tables, and `formats` writes it. The modules of this folder import neither.
"""
