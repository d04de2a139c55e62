"""What runs in the parent process. Never imports torch.

`prepare` chooses an executor (a `supervisor`, `devices`, `cluster`, or that of api/) and resolves the config to a plan; in
`run`, the executor yields finished cases, and the `writer` appends them to the results. Each device has a `supervisor`, which
starts a `worker` process again when it dies. `program` is a run of somebody's own script, which measures itself.
"""
