"""Benchmark scripts that call `triton.testing.perf_report`, run unchanged, and what they ask to measure."""
