"""The commands that compare: results files, or revisions of a repository that are measured first."""
