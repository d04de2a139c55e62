"""Timers, and the bandwidth that they are held against."""
