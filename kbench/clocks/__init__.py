"""The clocks of NVIDIA devices: locks them for a run, and undoes the lock however the run ends."""
