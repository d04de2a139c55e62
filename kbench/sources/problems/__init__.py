"""Problem folders of other benchmarks: a reference, inputs and solutions become an operator, cases and providers.

Each format has a folder beside this one: `flashinfer_trace` (also SOL-ExecBench) and `kernelbench`. Only workers
import them, as they run other people's code. The files here hold what the formats share.
"""
