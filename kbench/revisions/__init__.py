"""Measures two git revisions of a repository in turn.

`ab` is the whole of it. `repository` asks git, `side` checks a revision out and builds it, `session` measures one session of it
as a child process of `process`.
"""
