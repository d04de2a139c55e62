"""Timers, the stages around a call, and the bandwidth of a large copy."""
