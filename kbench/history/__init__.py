"""A history of results: a folder to which each run adds one file, and the changes in it.

`storage` reads and writes the folder. `timeline` joins the readings of all files to series, relative to the state of the
machine (`machine_level`). `change_points` finds where the level of a series changes, `status_changes` where it fails, and
`moved` says what else changed there. `judge_history` puts these together into a `report`, and `presentation` writes it.
"""
