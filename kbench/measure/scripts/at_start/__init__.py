"""What a program that `kbench exec` runs does at its start, before its own code."""
