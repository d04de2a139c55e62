"""Problems of FlashInfer-Trace and SOL-ExecBench: their definitions, workloads and solutions are measured as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kbench.contract.operator import registered
from kbench.results.case import Case
from kbench.sources import SourceFault
from kbench.sources.problems.flashinfer_trace import load

pytestmark = pytest.mark.usefixtures("no_operators")

SCALE: dict[str, Any] = {
    "name": "scale_n8",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 8}},
    "inputs": {"x": {"shape": ["M", "N"], "dtype": "bfloat16"}, "a": {"shape": None, "dtype": "float32"}},
    "outputs": {"y": {"shape": ["M", "N"], "dtype": "bfloat16"}},
    "reference": "def run(x, a):\n    return x * a\n",
}

RANDOM = {"type": "random"}


def scale_workload(**axes: int) -> dict[str, Any]:
    return {"uuid": "one", "axes": axes, "inputs": {"x": RANDOM, "a": {"type": "scalar", "value": 2.0}}}


def write_problem(folder: Path, definition: object, *workloads: object) -> Path:
    """A problem folder as SOL-ExecBench has it."""
    folder.mkdir()
    (folder / "definition.json").write_text(json.dumps(definition, indent=2))
    (folder / "workload.jsonl").write_text("".join(json.dumps(each) + "\n" for each in workloads))
    return folder


def changed(**changes: object) -> dict[str, Any]:
    """SCALE with other entries."""
    return {**SCALE, **changes}


def safetensors(**tensors: torch.Tensor) -> bytes:
    names = {torch.int32: "I32", torch.bfloat16: "BF16"}
    header, data = {}, b""
    for name, x in tensors.items():
        values = x.contiguous().view(torch.uint8).numpy().tobytes()
        offsets = [len(data), len(data) + len(values)]
        header[name] = {"dtype": names[x.dtype], "shape": list(x.shape), "data_offsets": offsets}
        data += values
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


TAKE = {
    "name": "take",
    "axes": {"T": {"type": "var"}, "R": {"type": "var"}},
    "inputs": {
        "table": {"shape": ["R", "4"], "dtype": "float32"},
        "rows": {"shape": ["T"], "dtype": "int32"},
        "factor": {"shape": ["T"], "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["T", "4"], "dtype": "float32"}},
    "custom_inputs_entrypoint": "make",
    "reference": """
import torch

def run(table, rows, factor):
    assert rows.min().item() >= 0
    return table[rows.long()] * factor[:, None]

def make(axes_and_scalars, device):
    T, R = axes_and_scalars["T"], axes_and_scalars["R"]
    rows = torch.randint(0, R, (T,), dtype=torch.int32, device=device)
    return {"rows": rows, "factor": rows.float() + 1}
""",
}
CUSTOM = {"type": "custom"}


def workload(uuid: str, rows: object, factor: object) -> dict[str, object]:
    return {"uuid": uuid, "axes": {"T": 6, "R": 3}, "inputs": {"table": RANDOM, "rows": rows, "factor": factor}}


def drawn(word: str) -> list[torch.Tensor]:
    """The inputs of a workload of TAKE."""
    from kbench.measure.correctness.definition import Definition
    from kbench.measure.correctness.inputs import Inputs
    from kbench.measure.machine.device import Device

    case = Case("take", {"T": 6, "R": 3, "workload": word}, "float32")
    return list(Inputs(Definition(registered["take"], case), Device(), 0).draw("timed"))


def test_inputs_come_from_where_the_workload_says(tmp_path: Path) -> None:
    stored = torch.tensor([2, 0, 1, 1, 2, 0], dtype=torch.int32)
    folder = write_problem(
        tmp_path / "take",
        TAKE,
        workload("made", CUSTOM, CUSTOM),
        workload("kept", {"type": "safetensors", "path": "data/blob/x.safetensors", "tensor_key": "r"}, RANDOM),
        workload("part", RANDOM, CUSTOM),
    )
    (folder / "blob").mkdir()
    (folder / "blob/x.safetensors").write_bytes(safetensors(other=torch.zeros(3, dtype=torch.bfloat16), r=stored))
    config = load(folder)
    assert [point["workload"] for point in config["sweep"]] == ["made", "kept", "part"]
    for others in ("kept", "part"):
        drawn(others)
        _, rows, factor = drawn("made")
        assert torch.equal(factor, rows.float() + 1), "one call of the problem's function makes both"
    _, rows, factor = drawn("kept")
    assert torch.equal(rows.cpu(), stored) and not torch.equal(factor, rows.float() + 1)
    assert torch.equal(drawn("made")[1], drawn("made")[1]), "the seed decides"


FAULTS: dict[str, tuple[Any, str]] = {
    "an unknown axis": (
        changed(inputs={"x": {"shape": ["M", "K"], "dtype": "bfloat16"}}),
        "definition.json: inputs.x.shape: there is no axis K; the axes are M, N",
    ),
    "an unknown kind of axis": (changed(axes={"M": {"type": "vary"}}), "definition.json: axes.M"),
    "a reference that is no Python": (
        changed(reference="def run(x, a)\n    return x\n"),
        "definition.json, reference:1:",
    ),
    "a dtype that kbench lacks": (
        changed(outputs={"y": {"shape": [], "dtype": "float4_e2m1"}}),
        "dtype float4_e2m1 is not supported",
    ),
    "code in an expression": (
        changed(axes={"M": {"type": "expr", "expression": "__import__('os')"}}),
        "definition.json: axes.M.expression: ",
    ),
    "the name of a column": (changed(axes={**SCALE["axes"], "session": {"type": "var"}}), "is a column of the results"),
    "a list": (["no object"], "definition.json: it must hold a JSON object"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_malformed_definition_is_one_located_fault(tmp_path: Path, name: str) -> None:
    definition, expected = FAULTS[name]
    with pytest.raises(SourceFault) as raised:
        load(write_problem(tmp_path / "problem", definition, scale_workload(M=1, session=1)))
    assert expected in str(raised.value)
    assert raised.value.where.startswith(str(tmp_path))


@pytest.mark.parametrize(("rows", "words"), [(-1, ["axes.M"]), (1, ["inputs", "x"])])
def test_a_mistake_in_a_workload_is_named_with_its_line_and_the_field(
    tmp_path: Path, rows: int, words: list[str]
) -> None:
    with pytest.raises(SourceFault) as raised:
        load(write_problem(tmp_path / "problem", SCALE, scale_workload(M=1), {"axes": {"M": rows}, "inputs": {}}))
    assert raised.value.where.endswith("workload.jsonl:2") and all(word in str(raised.value) for word in words)
