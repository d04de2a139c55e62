"""A history of results: a folder with the results files of many runs, and the changes in it.

`runs` reads the folder. `timeline` joins the rows of all runs to series, relative to the state of the machine
(`machine_level`). `change_points` finds where the level of a series changes, `statuses` where it fails, and `moved` says what
else changed there. `check` puts these together into a report, which `report_text` and `document` write.
"""
