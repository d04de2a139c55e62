"""What runs inside the worker process: the only code of kbench that touches a device.

`serving` answers the parent: with what exists here (`catalog`), with the rows of a case (`case`), or with what providers do on
edge inputs (`edge_cases`). A case, an `experiment`, makes a `contender` of each configuration and control, and runs each of its
`steps` with `tampering/` on guard. `correctness/` checks them against the float64 reference, rounds take their samples with
the timers of `timing/`, and `salting` changes their inputs meanwhile. `rows` makes rows of what they have, with `flags`.
`instruments` and `machine/` know the device, and `launches/` records what a call launches. `scripts/` does the same for the
calls of do_bench in somebody's own script, in a process of its own.
"""
