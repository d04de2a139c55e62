"""Calls a provider for a profiler, which wants to see one call and nothing else."""
