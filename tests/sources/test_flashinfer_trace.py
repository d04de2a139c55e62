"""Problems of FlashInfer-Trace and SOL-ExecBench: their definitions, workloads and solutions are measured as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from common import Kbench
from problems import RANDOM, SCALE, changed, scale_workload, solution, write_problem

from kbench.contract.operator import registered
from kbench.results.case import Case
from kbench.sources.fault import SourceFault
from kbench.sources.flashinfer_trace import load

QUICK = ("--set", "rounds=1", "--set", "rep_ms=1", "--set", "warmup_ms=1", "--no-plot")

RIGHT = "from parts import scaled\ndef run(x, a, weight):\n    return scaled(x, a, weight), x.float().sum(-1)\n"
INTO = "def run(x, a, weight, y, total):\n    y.copy_(x.float() * a * weight)\n    total.copy_(x.float().sum(-1))\n"
WRONG = "def run(x, a, weight):\n    return x * weight, x.float().sum(-1)\n"
PARTS = "def scaled(x, a, weight):\n    return (x.float() * a * weight.float()).to(x.dtype)\n"

pytestmark = pytest.mark.usefixtures("no_operators")


@pytest.mark.slow
def test_every_workload_is_a_case_and_every_solution_a_provider(kbench: Kbench, tmp_path: Path) -> None:
    write_problem(
        tmp_path / "problem",
        SCALE,
        scale_workload(3),
        scale_workload(40, 0.5),
        returns=solution("returns", RIGHT, parts=PARTS),
        writes=solution("writes", INTO, into=True),
        wrong=solution("wrong", WRONG),
        native=solution("native", "no Python", language="cuda"),
        raises=solution("raises", "\nraise KeyError('lost')\ndef run(): ..."),
        leaves=solution("leaves", "import os\nos._exit(7)\ndef run(): ..."),
        other=solution("other", RIGHT, of="another definition"),
    )
    done = kbench("run", "problem", *QUICK)
    rows = pd.read_csv(tmp_path / "results/scale_n8.csv")
    rows = rows[rows.role == "provider"]
    assert [tuple(each) for each in rows[["M", "a"]].drop_duplicates().to_numpy()] == [(3, 2.0), (40, 0.5)]
    found = {name: set(group.status) for name, group in rows.groupby("provider")}
    right = {"reference": {"ok"}, "returns": {"ok"}, "writes": {"ok"}}
    assert found == right | {"wrong": {"wrong"}, "native": {"unavailable"}, "raises": {"error"}, "leaves": {"crashed"}}
    reasons = {name: group.reason.iloc[0] for name, group in rows.groupby("provider")}
    assert "it is written in cuda" in reasons["native"]
    assert "raises.json, main.py:2" in reasons["raises"] and "KeyError: 'lost'" in reasons["raises"]
    assert "solutions.py" not in reasons["raises"], "a place in kbench tells the user nothing"
    assert "7" in reasons["leaves"]
    assert rows[rows.provider == "returns"].max_ulp.notna().all(), "judged against float64"
    assert (rows.dtype == "bfloat16").all()
    assert done.returncode == 1, done.stderr


def test_the_plan_of_a_data_set_is_shown_without_measuring(kbench: Kbench, tmp_path: Path) -> None:
    for folder in ("definitions/scaling", "workloads/scaling", "solutions/me/scaling"):
        (tmp_path / "set" / folder).mkdir(parents=True)
    definition = tmp_path / "set/definitions/scaling/scale_n8.json"
    definition.write_text(json.dumps(SCALE))
    lines = [{"definition": "scale_n8", "solution": None, "workload": scale_workload(rows)} for rows in (1, 2)]
    (tmp_path / "set/workloads/scaling/scale_n8.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "set/solutions/me/scaling/mine.json").write_text(json.dumps(solution("mine", WRONG)))
    done = kbench("run", definition, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "2 cases x 2 providers" in done.stdout and "mine: will run" in done.stdout
    assert not (tmp_path / "results").exists()


def test_a_reference_that_refuses_float64_is_judged_by_the_tolerance_of_the_problem(
    kbench: Kbench, tmp_path: Path
) -> None:
    code = SCALE["reference"].replace("    wide", "    assert x.dtype == torch.bfloat16\n    wide", 1)
    near = "def run(x, a, weight):\n    return (x * weight * a * 1.02).to(x.dtype), x.float().sum(-1)\n"
    write_problem(
        tmp_path / "problem",
        changed(reference=code),
        scale_workload(5, tolerance={"max_atol": 1e-6, "max_rtol": 0.05, "required_matched_ratio": 1.0}),
        scale_workload(6, tolerance={"max_atol": 1e-6, "max_rtol": 0.002, "required_matched_ratio": 1.0}),
        near=solution("near", near),
    )
    done = kbench("run", "problem", *QUICK)
    rows = pd.read_csv(tmp_path / "results/scale_n8.csv").query("role == 'provider'").set_index(["provider", "M"])
    assert rows.status["near", 5] == "ok" and rows.status["near", 6] == "wrong", done.stdout
    assert "outside the problem's tolerance (atol 1e-06, rtol 0.002)" in rows.reason["near", 6]
    assert rows.status["reference", 6] == "ok"
    assert rows.max_ulp.isna().all(), "no error against float64 is claimed"


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
    from kbench.measure.correctness.inputs import Inputs
    from kbench.measure.definition.definition import Definition
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
    )
    (folder / "blob").mkdir()
    (folder / "blob/x.safetensors").write_bytes(safetensors(other=torch.zeros(3, dtype=torch.bfloat16), r=stored))
    [sweep] = load(folder)
    assert [point["workload"] for point in sweep.points] == ["made", "kept"]
    _, rows, factor = drawn("made")
    assert torch.equal(factor, rows.float() + 1), "one call of the problem's function makes both"
    _, rows, factor = drawn("kept")
    assert torch.equal(rows.cpu(), stored) and not torch.equal(factor, rows.float() + 1)
    assert torch.equal(drawn("made")[1], drawn("made")[1]), "the seed decides"


def test_the_reference_computes_in_float64_whatever_dtypes_it_names(tmp_path: Path) -> None:
    load(write_problem(tmp_path / "problem", SCALE, scale_workload(4)))
    x, weight = torch.rand(4, 16, dtype=torch.float64), torch.rand(16, dtype=torch.float64)
    y, total = registered["scale_n8"].reference(x, weight, a=3.0)
    assert y.dtype == total.dtype == torch.float64
    assert torch.allclose(y, x * weight * 3, rtol=1e-15) and torch.allclose(total, x.sum(-1), rtol=1e-15)
    assert torch.get_default_dtype() == torch.float32


FAULTS: dict[str, tuple[Any, str]] = {
    "no name": (changed(name=None), "definition.json:2:3: name is missing; it must be text"),
    "an axis of no kind": (
        changed(axes={"M": {"type": "list"}}),
        'definition.json:5:7: axes.M.type is "list"; it must be one of const, var, expr',
    ),
    "an unknown axis": (
        changed(inputs={"x": {"shape": ["M", "K"], "dtype": "bfloat16"}}),
        "definition.json:20:9: inputs.x has the axis K, which is not one of N, twice, M",
    ),
    "a dtype that kbench lacks": (
        changed(outputs={"y": {"shape": [], "dtype": "float4_e2m1"}}),
        "dtype float4_e2m1 is not supported",
    ),
    "no tensor": (changed(inputs={}), "there is no input with a shape"),
    "code in an expression": (
        changed(axes={"M": {"type": "expr", "expression": "__import__('os')"}}),
        "definition.json:6:7: the expression \"__import__('os')\" is not supported",
    ),
    "a syntax error": (changed(reference="import torch\ndef run(:"), "definition.json, reference:2:9: not Python"),
    "no function": (changed(reference="x = 1"), "reference: `run` is not defined"),
    "code that raises": (changed(reference="x = 1\nx / 0"), "reference:2: the code raised ZeroDivisionError"),
    "code that exits": (changed(reference="import sys\nsys.exit('bye')"), "reference:2: the code raised SystemExit"),
    "the name of a column": (changed(axes={**SCALE["axes"], "session": {"type": "var"}}), "is a column of the results"),
    "a list": (["no object"], 'definition.json:1:1: the file is ["no object"]; it must be an object'),
    "null": (None, "definition.json:1:1: the file is null; it must be an object"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_malformed_definition_is_one_located_fault(tmp_path: Path, name: str) -> None:
    definition, expected = FAULTS[name]
    line = {**scale_workload(1), "axes": {"M": 1, "session": 1}}
    with pytest.raises(SourceFault) as raised:
        load(write_problem(tmp_path / "problem", definition, line))
    assert expected in f"{raised.value.where}: {raised.value}"
    assert raised.value.where.startswith(str(tmp_path))


SOLUTIONS: dict[str, tuple[Any, str]] = {
    "a taken name": (
        solution("reference", "def run(): ..."),
        "other.json: 'scale_n8' has a provider 'reference' already",
    ),
    "a name that cannot be printed": (solution("a\nb", "def run(): ..."), "other.json: provider 'a\\nb' of 'scale_n8'"),
    "no spec": ({"definition": "scale_n8", "name": "mine", "sources": []}, "other.json:1:1: spec is missing"),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_malformed_solution_is_one_fault_in_its_file(tmp_path: Path, name: str) -> None:
    other, expected = SOLUTIONS[name]
    with pytest.raises(SourceFault) as raised:
        load(write_problem(tmp_path / "problem", SCALE, scale_workload(1), other=other))
    assert expected in f"{raised.value.where}: {raised.value}"


def test_a_solution_of_another_definition_is_left_out_with_a_note(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    definition = changed(name="../hunt")
    other = solution("mine", "def run(): ...")
    [found] = load(write_problem(tmp_path / "problem", definition, scale_workload(1), other=other, config={"a": 1}))
    assert list(found.providers) == ["reference"]
    assert capfd.readouterr().err == "kbench: other.json is a solution of 'scale_n8', not of ../hunt\n"


LINES = {
    "5": "workload.jsonl:2:1: the line is 5; it must be an object",
    '{"axes": {}': "workload.jsonl:2:12: not JSON",
    '{"axes": {}, "inputs": {}}': "workload.jsonl:2:2: the key `axes` has no M",
    '{"axes": {"M": -1}, "inputs": {}}': "workload.jsonl:2:11: axes.M is -1; it must be a whole number",
    '{"axes": {"M": 1}, "inputs": {"x": {"type": "random"}}}': "workload.jsonl:2:20: the key `inputs` has no a",
    '{"axes": {"M": 1}, "inputs": {"x": {"type": "zeros"}}}': 'workload.jsonl:2:37: inputs.x.type is "zeros"',
    '{"axes": {"M": 1}, "inputs": {"x": {"type": "custom"}}}': "x is custom, but the definition has no custom_inputs",
    '{"axes": {"M": 1}, "inputs": {"x": {"type": "safetensors", "path": "a.st", "tensor_key": "x"}}}': (
        "workload.jsonl:2:60: no such file: a.st"
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_malformed_workload_is_one_located_fault(tmp_path: Path, line: str) -> None:
    folder = write_problem(tmp_path / "problem", SCALE)
    (folder / "workload.jsonl").write_text(json.dumps(scale_workload(1)) + "\n" + line + "\n")
    with pytest.raises(SourceFault) as raised:
        load(folder)
    assert LINES[line] in f"{raised.value.where}: {raised.value}"


def test_stored_tensors_must_fit_the_definition(tmp_path: Path) -> None:
    stored = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "r"}
    folder = write_problem(tmp_path / "take", TAKE, workload("kept", stored, RANDOM))
    (folder / "x.safetensors").write_bytes(safetensors(r=torch.zeros(5, dtype=torch.int32)))
    with pytest.raises(
        SourceFault, match=r"tensor r: rows is int32 of shape \(5,\) in .*; it must be int32 of shape \(6,\)"
    ):
        load(folder)
    header = b'{"r": {"dtype": "U16", "shape": [6], "data_offsets": [0, 12]}}'
    (folder / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(SourceFault, match="r has dtype U16; kbench reads F64, F32, "):
        load(folder)
    (folder / "x.safetensors").write_bytes(b"\x05\0\0\0\0\0\0\0abc")
    with pytest.raises(SourceFault, match="not readable as safetensors"):
        load(folder)
    (folder / "x.safetensors").write_bytes(b"no safetensors")
    with pytest.raises(
        SourceFault, match=r"not readable as safetensors: its header has \d+ bytes; the limit is 104857600"
    ):
        load(folder)


def test_a_malformed_problem_is_one_line_of_the_command(kbench: Kbench, tmp_path: Path) -> None:
    write_problem(tmp_path / "problem", changed(reference="import os\nos._exit(3)"), scale_workload(1))
    done = kbench("run", "problem")
    assert done.returncode == 3 and "problem: the process exited with code 3 while loading it; mend it" in done.stderr
    write_problem(tmp_path / "problem", changed(outputs={}), scale_workload(1))
    done = kbench("run", "problem")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == f"error: {tmp_path}/problem/definition.json:35:3: there are no outputs; declare at least one\n"
    )


def test_a_data_set_of_several_definitions_asks_for_one(tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"definitions/{name}.json").write_text(json.dumps(SCALE))
    with pytest.raises(SourceFault, match=r"holds 2 definitions; name one of them, for example definitions/a.json"):
        load(tmp_path)
