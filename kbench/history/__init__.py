"""A history of results: a folder with the results files of many runs, and the changes in it.

`timeline` reads the folder and joins the rows of all runs to series, relative to the state of the machine (`machine_level`).
`change_points` finds where a level changes. `changes` adds where a series fails, and what else changed there. `report` judges
the history and writes the JSON, `report_text` the text.
"""
