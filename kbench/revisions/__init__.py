"""Measures two git revisions of a repository in turn.

`ab` is the whole of it. `repository` asks git. `side` checks a revision out, builds it, and measures its sessions, each as a
child process of `process`.
"""
