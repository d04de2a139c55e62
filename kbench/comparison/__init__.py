"""Compare results: join the rows of two sides, judge each pair, and list what else differs.

`compare.compare_results` makes a `model.Comparison` from two results files: `join` pairs the rows, `drift` measures how the
machine changed, and `judge` computes the size of each change (with `stats`) and gives each row a `verdict` with its reasons
(`reason`). `report` has the names, numbers, groups and lines of a report; `text`, `markdown` and `github` lay it out. The types
of `model` are the JSON; `exports` lists the formats.
"""
