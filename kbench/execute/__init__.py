"""What runs in the parent process. Never imports torch.

`prepare` chooses an executor (`devices`, `cluster`, or that of notebook/) and makes the `plan`; in `run`, the executor yields
finished cases, and the `writer` appends them to the results. An executor has a `supervisor` for each device, which starts a
`worker` process again when it dies. `program` is a run of somebody's own script, which measures itself.
"""
