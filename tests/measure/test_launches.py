"""What kbench makes of the nodes of a CUDA graph: the launches of a call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kbench.launches.launched_call import KernelLaunch, MemoryOperation
from kbench.measure.launches import recorder
from kbench.measure.launches.graph_nodes import KernelNode, device_limits, read_graph
from kbench.measure.launches.machine_code import MachineCode, TritonKernels
from kbench.measure.launches.recorder import LaunchRecorder, Recorded, launched_call
from kbench.measure.machine.device import Device


class Unknown(MachineCode):
    """Knows only names."""

    def __init__(self) -> None:
        super().__init__(TritonKernels())

    def of(self, function: int, symbol: str) -> tuple[str, str]:
        return symbol, "test"


def node(symbol: str = "k", grid: int = 1, function: int = 1) -> KernelNode:
    return KernelNode(function, symbol, (grid, 1, 1), (128, 1, 1), 0, 40, 0, 16, 8)


def test_launches_that_are_alike_are_counted() -> None:
    nodes = [
        MemoryOperation("memset", 64),
        node(),
        node(grid=2),
        node(),
        node("other", function=2),
        MemoryOperation("memset", 64),
    ]
    call = launched_call(nodes, Unknown())
    assert [(each.kernel.symbol, each.grid[0], each.times) for each in call.launches] == [
        ("k", 1, 2), ("k", 2, 1), ("other", 1, 1),
    ]  # fmt: skip
    assert call.memory == (MemoryOperation("memset", 64, 2),) and call.kernels == 4


def test_a_call_with_endless_launches_is_refused() -> None:
    with pytest.raises(RuntimeError, match="more than 1000 different launches"):
        launched_call([node(grid=n) for n in range(1001)], Unknown())
    assert launched_call([node()] * 5000, Unknown()).kernels == 5000


def test_names_of_templates_are_readable_and_cut() -> None:
    [launch] = launched_call([node("_ZN2at6native4copyIfEEvPT_")], Unknown()).launches
    assert launch.kernel.name == "void at::native::copy<float>(float*)"
    [launch] = launched_call([node("_Z" + "9templates" * 1000)], Unknown()).launches
    assert isinstance(launch, KernelLaunch) and len(launch.kernel.name) < 400


# -- the driver


class FakeDriver:
    """Answers as NVIDIA's driver does, for graphs that are given as lists of nodes. Handles are numbers."""

    def __init__(self, graphs: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
        self._graphs = graphs
        self._nodes = {graph * 100 + n: each for graph, nodes in graphs.items() for n, each in enumerate(nodes, 1)}

    def cuGraphGetNodes(self, graph: Any, nodes: Any, count: Any) -> int:
        handles = [handle for handle in self._nodes if handle // 100 == graph.value]
        count._obj.value = len(handles)
        for number, handle in enumerate(handles if nodes else ()):
            nodes[number] = handle
        return 0

    def cuGraphNodeGetType(self, node: Any, kind: Any) -> int:
        kind._obj.value = self._nodes[node.value]["type"]
        return 0

    def _fill(self, node: Any, params: Any) -> int:
        for name, value in self._nodes[node.value].items():
            if name in dict(params._obj._fields_):
                setattr(params._obj, name, value)
        return 0

    cuGraphKernelNodeGetParams_v2 = cuGraphMemcpyNodeGetParams = cuGraphMemsetNodeGetParams = _fill

    def cuGraphChildGraphNodeGetGraph(self, node: Any, graph: Any) -> int:
        graph._obj.value = self._nodes[node.value]["graph"]
        return 0

    def cuKernelGetFunction(self, function: Any, kernel: Any) -> int:
        function._obj.value = kernel.value + 1
        return 0

    def cuFuncGetName(self, name: Any, function: Any) -> int:
        name._obj.value = f"kernel{function.value}".encode()
        return 0

    def cuFuncGetAttribute(self, value: Any, attribute: Any, function: Any) -> int:
        value._obj.value = {1: 1024, 3: 256, 4: 64}[attribute.value]
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks: Any, function: Any, threads: Any, shared: Any) -> int:
        blocks._obj.value = 2048 // threads.value
        return 1 if shared.value > 200_000 else 0

    def cuCtxGetDevice(self, device: Any) -> int:
        device._obj.value = 3
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: Any, device: Any) -> int:
        value._obj.value = attribute.value * 10
        return 0 if device.value == 3 else 101


def test_the_limits_are_those_of_the_current_device() -> None:
    found = device_limits(FakeDriver({}))  # type: ignore[arg-type]
    assert (found.multiprocessors, found.threads, found.registers, found.blocks) == (160, 390, 820, 1060)


def three(*values: int) -> Any:
    return (ctypes.c_uint * 3)(*values)


def test_the_driver_is_asked_for_each_node_also_in_graphs_inside_the_graph() -> None:
    kernel = {"type": 0, "grid": three(8, 2, 1), "block": three(32, 4, 1), "sharedMemBytes": 48}
    graphs = {
        1: [
            kernel | {"func": 7},
            {"type": 2, "elementSize": 4, "width": 16, "height": 2},
            {"type": 5},
            {"type": 4, "graph": 2},
        ],
        2: [{"type": 1, "width": 256, "height": 3, "depth": 1}, kernel | {"kern": 8, "sharedMemBytes": 300_000}],
    }
    found = list(read_graph(FakeDriver(graphs), 1))  # type: ignore[arg-type]
    assert found == [
        KernelNode(7, "kernel7", (8, 2, 1), (32, 4, 1), 48, 64, 256, 1024, 16),
        MemoryOperation("memset", 128),
        MemoryOperation("memcpy", 768),
        KernelNode(9, "kernel9", (8, 2, 1), (32, 4, 1), 300_000, 64, 256, 1024, None),
    ]


def test_a_driver_that_is_too_old_or_refuses_says_so() -> None:
    class Old(FakeDriver):
        cuFuncGetName = property()  # type: ignore[assignment]

    graphs = {1: [{"type": 0, "func": 7, "grid": three(1, 1, 1), "block": three(1, 1, 1)}]}
    with pytest.raises(RuntimeError, match=r"no function cuFuncGetName; it needs CUDA 12.3"):
        list(read_graph(Old(graphs), 1))  # type: ignore[arg-type]

    class Broken(FakeDriver):
        def cuGraphGetNodes(self, *_: Any) -> int:
            return 400

    with pytest.raises(RuntimeError, match="cuGraphGetNodes failed with CUDA error 400"):
        list(read_graph(Broken(graphs), 1))  # type: ignore[arg-type]


def test_on_a_host_nothing_is_recorded_and_nothing_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    class Host(Device):
        @property
        def accelerated(self) -> bool:
            return False

    made = LaunchRecorder(Host())
    made.say_what_is_missing()
    assert not made.works and not capsys.readouterr().err


class Graph:
    """A captured graph."""

    def raw_cuda_graph(self) -> int:
        return 1

    def reset(self) -> None:
        pass


def refuse(error: Exception) -> Any:
    def fail(*_: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [RuntimeError("not permitted\nmore"), ValueError(), AttributeError("no such function")]
)
def test_a_capture_or_a_graph_that_fails_costs_only_the_kernels(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    device = Device()
    made = LaunchRecorder(device)
    vars(made)["_stream"] = None  # it would ask a device for one
    monkeypatch.setattr(recorder, "peak_bytes", lambda prepare: 4096)
    monkeypatch.setattr(recorder, "capture", refuse(error))
    first = str(error).partition("\n")[0] or type(error).__name__
    assert made.record(lambda: None) == Recorded(  # type: ignore[arg-type,return-value]
        None, 4096, f"the call cannot be captured in a CUDA graph: {first}"
    )
    monkeypatch.setattr(recorder, "capture", lambda *_: Graph())
    vars(made)["_driver"] = None
    monkeypatch.setattr(recorder, "read_graph", refuse(error))
    assert made.record(lambda: None) == Recorded(None, 4096, first)  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(recorder, "capture", refuse(error))
    monkeypatch.setattr(device, "healthy", lambda: False)
    with pytest.raises(RuntimeError, match="the call cannot be captured"):  # the worker gives the device up
        made.record(lambda: None)  # type: ignore[arg-type,return-value]


def test_what_was_recorded_has_the_limits_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    made = LaunchRecorder(Device())
    monkeypatch.setattr(recorder, "peak_bytes", lambda prepare: 0)
    monkeypatch.setattr(recorder, "capture", lambda *_: Graph())
    graph = [{"type": 2, "elementSize": 4, "width": 16, "height": 2}]
    vars(made).update(_stream=None, _driver=FakeDriver({1: graph}))  # what it would ask a device for
    found = made.record(lambda: None)  # type: ignore[arg-type,return-value]
    assert found.launched and found.launched.memory == (MemoryOperation("memset", 128),)
    assert made.limits.multiprocessors == 160
