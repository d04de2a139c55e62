"""The commands of `kbench history`: they keep results over time in a folder, and find the changes in it."""
