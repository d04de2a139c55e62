"""Measures nothing."""

print("no benchmark here")
