"""The folder of a history: `stored_run` is the format of a file, `folder` reads and adds files, and `adding` makes a file from
a results CSV."""
