"""A process that has imported what a worker imports, and forks the workers of tests. See forking.py.

It starts no thread and calls nothing of torch. A worker that it forks is then like one that was started.
"""

import gc
import json
import os
import runpy
import select
import socket
import sys
from contextlib import suppress
from importlib import import_module

gc.disable()
import_module("torch")
import_module("torch.fx.experimental.symbolic_shapes")  # with the first gradient, torch would import it
import_module("kbench.measure.serving")
if os.environ.get("TRITON_INTERPRET") == "1":  # otherwise kbench sets it before it imports kernels
    registry = import_module("kbench.contract.registry")
    for name in registry.operator_names():
        registry.operator(name)

control = socket.socket(fileno=int(sys.argv.pop()))
workers: dict[int, tuple[int, int]] = {}  # by pidfd: the process id, and the pipe that gets the status at its end
while True:
    ready = select.select([control.fileno(), *workers], [], [])[0]
    for pidfd in workers.keys() & set(ready):
        worker, report = workers.pop(pidfd)
        with suppress(BrokenPipeError):  # the test has ended
            os.write(report, os.waitpid(worker, 0)[1].to_bytes(4, "little"))
        os.close(report)
        os.close(pidfd)
    if control.fileno() not in ready:
        continue
    request, descriptors, *_ = socket.recv_fds(control, 1 << 20, 4)
    if not request:
        os._exit(0)  # the tests have ended
    *streams, report = descriptors
    if not (worker := os.fork()):
        break
    workers[os.pidfd_open(worker)] = worker, report
    os.write(report, worker.to_bytes(4, "little"))
    for stream in streams:
        os.close(stream)

os.setsid()
for number, stream in enumerate(streams):
    os.dup2(stream, number)
control.close()
os.closerange(3, os.sysconf("SC_OPEN_MAX"))
folder, environment = json.loads(request)
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
runpy.run_module("kbench.measure", run_name="__main__", alter_sys=True)
