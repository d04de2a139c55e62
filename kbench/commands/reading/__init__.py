"""The commands that only read results files."""
