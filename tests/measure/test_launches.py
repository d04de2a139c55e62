"""What kbench makes of the nodes of a CUDA graph, and of files with machine code."""

from __future__ import annotations

import ctypes
import gc
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.runtime.cache import get_cache_manager

from kbench.launches.code_digest import code_digest
from kbench.launches.elf import elf_sections
from kbench.launches.launched_call import MACHINE_CODE, KernelLaunch, MemoryOperation
from kbench.measure.launches import machine_code, recorder
from kbench.measure.launches.graph_nodes import GraphReader, KernelNode, MemoryNode, device_limits
from kbench.measure.launches.machine_code import MachineCode, TritonKernels
from kbench.measure.launches.recorder import LaunchRecorder, Recorded, launched_call, readable
from kbench.measure.machine.device import Device


def elf(**contents: bytes) -> bytes:
    """A 64-bit ELF file with these sections; two underscores in a name stand for a dot."""
    names, body, headers, place = b"\0", b"", [(0, 0, 0, 0, 0, 0)], 64
    for name, content in contents.items():
        headers.append((len(names), 1, 0, 0, place + len(body), len(content)))
        names += name.replace("__", ".").encode() + b"\0"
        body += content
    headers.append((0, 3, 0, 0, place + len(body), len(names)))
    start, count = place + len(body) + len(names), len(headers)
    head = struct.pack(
        "<4sBB10xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 2, 190, 1, 0, 0, start, 0, 64, 0, 0, 64, count, count - 1
    )
    return head + body + names + b"".join(struct.pack("<IIQQQQ16x8x", *each) for each in headers)


def test_the_sections_of_an_elf_file_are_found_by_their_names() -> None:
    found = dict(elf_sections(elf(__text__k=b"code", __debug_line=b"line 3")))
    assert found[".text.k"] == b"code" and found[".debug_line"] == b"line 3"


@pytest.mark.parametrize("cut", [0, 3, 20, 63, 70, 100, 200])
def test_an_incomplete_file_has_no_code(cut: int) -> None:
    assert code_digest(elf(__text__k=b"code" * 100)[:cut]) == ""


def test_a_real_library_has_sections_and_no_code_for_devices() -> None:
    import numpy._core._multiarray_umath as library

    data = Path(library.__file__).read_bytes()
    assert ".text" in dict(elf_sections(data))


def test_the_digest_changes_with_the_machine_code_and_not_with_a_comment() -> None:
    before = code_digest(elf(__text__k=b"add", __debug_line=b"kernel.py:3", __nv__constant0__k=b"1"))
    assert before == code_digest(elf(__debug_line=b"kernel.py:4", __nv__constant0__k=b"1", __text__k=b"add"))
    assert before != code_digest(elf(__text__k=b"sub", __debug_line=b"kernel.py:3", __nv__constant0__k=b"1"))
    assert before != code_digest(elf(__text__k=b"add", __debug_line=b"kernel.py:3", __nv__constant0__k=b"2"))


class Unknown(MachineCode):
    """Knows only names."""

    def __init__(self) -> None:
        super().__init__(TritonKernels())

    def of(self, function: int, symbol: str, packages: Sequence[str]) -> tuple[str, str]:
        return symbol, "test"


def node(symbol: str = "k", grid: int = 1, function: int = 1) -> KernelNode:
    return KernelNode(function, symbol, (grid, 1, 1), (128, 1, 1), 0, 40, 0, 16, 8)


def test_launches_that_are_alike_are_counted() -> None:
    nodes = [
        MemoryNode("memset", 64),
        node(),
        node(grid=2),
        node(),
        node("other", function=2),
        MemoryNode("memset", 64),
    ]
    call = launched_call(nodes, Unknown(), ())
    assert [(each.kernel.symbol, each.grid[0], each.times) for each in call.launches] == [
        ("k", 1, 2), ("k", 2, 1), ("other", 1, 1),
    ]  # fmt: skip
    assert call.memory == (MemoryOperation("memset", 64, 2),) and call.kernels == 4


def test_a_call_with_endless_launches_is_refused() -> None:
    with pytest.raises(RuntimeError, match="more than 1000 different launches"):
        launched_call([node(grid=n) for n in range(1001)], Unknown(), ())
    assert launched_call([node()] * 5000, Unknown(), ()).kernels == 5000


def test_names_of_templates_are_readable_and_cut() -> None:
    assert readable("_ZN2at6native4copyIfEEvPT_") == "void at::native::copy<float>(float*)"
    assert readable("triton_row_kernel") == "triton_row_kernel" and readable("") == ""
    [launch] = launched_call([node("_Z" + "9templates" * 1000)], Unknown(), ()).launches
    assert isinstance(launch, KernelLaunch) and len(launch.kernel.name) < 400


# -- machine code


def test_a_kernel_of_triton_is_known_by_the_file_that_triton_has_loaded(tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(elf(__text__k=b"add"))
    kernels = TritonKernels()
    kernels._note(None, 77, "k", {"k.json": "x", "k.cubin": str(cubin)}, "hash")
    code = MachineCode(kernels)
    assert code.of(77, "k", ()) == (code_digest(cubin.read_bytes()), MACHINE_CODE)
    assert code.of(77, "another", ())[1].startswith("name and torch "), (
        "the driver has given the handle to another kernel"
    )
    cubin.unlink()
    digest, origin = code.of(77, "k", ())
    assert digest and origin == "source code, as Triton compiles it"


def test_triton_reports_the_kernels_that_it_loads() -> None:
    from triton import knobs

    kernels = TritonKernels()
    kernels.watch()
    kernels.watch()
    assert kernels._note in knobs.runtime.kernel_load_end_hook.calls
    knobs.runtime.kernel_load_end_hook(None, 5, "name", {"name.cubin": "/nowhere"}, "hash")
    knobs.runtime.kernel_load_end_hook.remove(kernels._note)
    assert kernels.find(5, "name") == ("name", "/nowhere", "hash")


class StaticallyLaunchedStandIn:
    """What torch's compiler keeps of a kernel that it has loaded without Triton."""

    def __init__(self, function: int | None, name: str) -> None:
        self.function, self.name, self.hash = function, name, f"hash of {name}"


def test_a_kernel_of_torchs_compiler_is_known_by_what_launches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubin = tmp_path / "triton_one.cubin"
    cubin.write_bytes(elf(__text__one=b"add"))
    monkeypatch.setattr(machine_code, "_cached_cubin", lambda name, key: str(tmp_path / f"{name}.cubin"))
    kept = [StaticallyLaunchedStandIn(None, "triton_none"), StaticallyLaunchedStandIn(81, "triton_one")]
    code = MachineCode(TritonKernels())
    assert code.of(81, "triton_one", ()) == (code_digest(cubin.read_bytes()), MACHINE_CODE)
    assert code.of(82, "triton_two", ())[1].startswith("name and torch ") and kept


@pytest.mark.parametrize("process", ["compiled it", "found it on the disk"])
def test_a_kernel_of_torchs_compiler_has_the_same_code_whoever_compiled_it(
    process: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch tells Triton its folder only when it compiles. Another digest in the next run would be a change of the code."""
    kernel = StaticallyLaunchedStandIn(83, "triton_three")
    kernel.hash = "3" * 64
    folder = tmp_path / "torch" / "triton" / "0"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
    saved = get_cache_manager(kernel.hash).put(elf(__text__three=b"mul"), "triton_three.cubin")
    assert Path(saved).is_relative_to(folder)
    if process != "compiled it":
        monkeypatch.delenv("TRITON_CACHE_DIR")
        monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert MachineCode(TritonKernels()).of(83, "triton_three", ()) == (
        code_digest(Path(saved).read_bytes()),
        MACHINE_CODE,
    )
    Path(saved).unlink()
    assert MachineCode(TritonKernels()).of(83, "triton_three", ())[1].startswith("source code")


def test_the_objects_of_python_are_searched_once_for_the_kernels_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search looks at a million objects. The kernels of a call were loaded in their order."""
    kept = [StaticallyLaunchedStandIn(number, f"triton_{number}") for number in (901, 902, 903)]
    searched: list[object] = []
    everything = gc.get_objects
    monkeypatch.setattr(gc, "get_objects", lambda: searched.append(1) or everything())
    kernels = TritonKernels()
    gc.collect()  # the newest objects come last now
    assert [kernels.find(each.function or 0, each.name) for each in kept] == [
        (each.name, "", each.hash) for each in kept
    ]
    assert len(searched) < len(kept)


def test_a_kernel_of_an_extension_is_known_by_the_code_in_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = tmp_path / "mine.so", tmp_path / "other.so"
    mine.write_bytes(elf(__nv_fatbin=b"machine code", __rodata=b"\x07_Z4rowsPf\0many_rows\0"))
    other.write_bytes(elf(__text=b"_Z4rowsPf host code only"))
    monkeypatch.setattr(machine_code, "_libraries", lambda: [str(other), str(mine), str(tmp_path / "gone.so")])
    code = MachineCode(TritonKernels())
    assert code.of(1, "_Z4rowsPf", ()) == (code_digest(mine.read_bytes()), "machine code in mine.so")
    assert code.of(1, "rows", ())[1].startswith("name and"), "it is the end of a longer name there"
    assert code.of(1, "_Z4rows", ())[1].startswith("name and"), "it is the beginning of a longer name there"
    assert code.of(1, "_Z5otherPf", ("no_such_module",))[1] == f"name and torch {torch.__version__}"


def test_a_library_is_searched_once_for_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has hundreds of cases, and a library may have 60 MB."""
    library = tmp_path / "rows.so"
    library.write_bytes(elf(__nv_fatbin=b"machine code", __rodata=b"\0_Z4rowsPf\0"))
    monkeypatch.setattr(machine_code, "_libraries", lambda: [str(library)])
    code = MachineCode(TritonKernels())
    known = [code.of(1, name, ()) for name in ("_Z4rowsPf", "_Z5otherPf")]
    monkeypatch.setattr(machine_code, "_contains", refuse(AssertionError("searched again")))
    assert [code.of(1, name, ()) for name in ("_Z4rowsPf", "_Z5otherPf")] == known
    monkeypatch.undo()
    later = tmp_path / "later.so"
    later.write_bytes(elf(__nv_fatbin=b"other code", __rodata=b"\0_Z5otherPf\0"))
    monkeypatch.setattr(machine_code, "_libraries", lambda: [str(library), str(later)])
    assert code.of(1, "_Z5otherPf", ())[1] == "machine code in later.so", "it was loaded after the first search"


def test_the_libraries_of_this_process_do_not_include_those_of_torch() -> None:
    found = machine_code._libraries()
    assert any("numpy" in path for path in found) and not any("libtorch" in path for path in found)


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
    found = list(GraphReader(FakeDriver(graphs))(1))  # type: ignore[arg-type]
    assert found == [
        KernelNode(7, "kernel7", (8, 2, 1), (32, 4, 1), 48, 64, 256, 1024, 16),
        MemoryNode("memset", 128),
        MemoryNode("memcpy", 768),
        KernelNode(9, "kernel9", (8, 2, 1), (32, 4, 1), 300_000, 64, 256, 1024, None),
    ]


def test_a_driver_that_is_too_old_or_refuses_says_so() -> None:
    class Old(FakeDriver):
        cuFuncGetName = property()  # type: ignore[assignment]

    graphs = {1: [{"type": 0, "func": 7, "grid": three(1, 1, 1), "block": three(1, 1, 1)}]}
    with pytest.raises(RuntimeError, match=r"no function cuFuncGetName; it needs CUDA 12.3"):
        list(GraphReader(Old(graphs))(1))  # type: ignore[arg-type]

    class Broken(FakeDriver):
        def cuGraphGetNodes(self, *_: Any) -> int:
            return 400

    with pytest.raises(RuntimeError, match="cuGraphGetNodes failed with CUDA error 400"):
        list(GraphReader(Broken(graphs))(1))  # type: ignore[arg-type]


def test_on_a_host_nothing_is_recorded_and_nothing_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    class Host(Device):
        @property
        def accelerated(self) -> bool:
            return False

    made = LaunchRecorder(Host())
    made.say_what_is_missing()
    assert not made.works and not capsys.readouterr().err


def test_a_device_of_another_maker_is_missed_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Other(Device):
        @property
        def accelerated(self) -> bool:
            return True

    monkeypatch.setattr(torch.version, "hip", "7.0")
    made = LaunchRecorder(Other())
    made.say_what_is_missing()
    made.say_what_is_missing()
    assert not made.works
    said = "the kernels of calls are not recorded: kbench reads the kernels of a call on NVIDIA devices only"
    assert capsys.readouterr().err == f"kbench: {said}\n"


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
    vars(made)["_read"] = refuse(error)
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


def test_of_a_library_without_device_code_only_the_tables_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, other = tmp_path / "plain.so", tmp_path / "no_library.so"
    plain.write_bytes(elf(__text=b"host code", __rodata=b"_Z4rowsPf\0.nv_fatbin"))
    other.write_text("/* a linker script */")
    monkeypatch.setattr(machine_code, "_read", refuse(AssertionError("read as a whole")))
    for path in (plain, other, tmp_path / "gone.so", tmp_path):
        assert machine_code._device_code(str(path)) == (b"", "")
