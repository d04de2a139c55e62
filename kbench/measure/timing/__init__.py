"""Timers, and the stages around a call."""
