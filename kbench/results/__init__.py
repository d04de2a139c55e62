"""Rows and the files that hold them: the CSV, its columns, and the environment file beside it."""
