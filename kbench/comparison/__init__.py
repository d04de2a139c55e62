"""Compare results: join the rows of two sides, judge each row, and list what else differs.

`compare.compare_results` reads two results files and joins their rows. `drift` measures how the machine changed, and `judge`
computes the size of each change (with `stats`) and gives each row a `verdict` with its reasons. The outcome is a
`model.Comparison`, which is also the JSON. `report` makes text of it, `github` what GitHub shows; `exports` lists the formats.
"""
