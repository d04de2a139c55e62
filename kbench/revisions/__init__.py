"""Measures two git revisions of a repository in turn: worktrees, builds, alternating sessions."""
