"""Timers, how exactly a time is known, and the stages around a call."""
