"""Problems of other benchmarks: a reference, inputs and solutions become an operator, cases and providers.

Each format is a module: `flashinfer_trace.py` (also SOL-ExecBench) and `kernelbench.py`. Only workers import them, as they run
other people's code. The other files hold what the formats share.
"""
