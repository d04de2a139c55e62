"""Problems of other benchmarks, measured as they are: FlashInfer-Trace (also SOL-ExecBench) and KernelBench."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from promises.outside import QUICK, Kbench, MadeOnce, Row, Write, folder_of, keep, kept, providers_of, run_kbench

RUN = (*QUICK, "--no-plot")

DEFINITION = {
    "name": "scale_n8",
    "axes": {
        "M": {"type": "var"},
        "N": {"type": "const", "value": 8},
        "twice": {"type": "expr", "expression": "N * 2"},
    },
    "inputs": {
        "x": {"shape": ["M", "twice"], "dtype": "bfloat16"},
        "a": {"shape": None, "dtype": "float32"},
        "weight": {"shape": ["twice"], "dtype": "bfloat16"},
    },
    "outputs": {"y": {"shape": ["M", "twice"], "dtype": "bfloat16"}, "total": {"shape": ["M"], "dtype": "float32"}},
    "reference": """
import torch

def run(x, a, weight):
    wide = x.to(torch.float32)
    return (wide * a * weight.to(torch.float32)).to(x.dtype), wide.sum(-1)
""",
}
RIGHT = "from parts import scaled\ndef run(x, a, weight):\n    return scaled(x, a, weight), x.float().sum(-1)\n"
IN_FUNCTION = (
    "def run(x, a, weight):\n    from parts import scaled\n    return scaled(x, a, weight), x.float().sum(-1)\n"
)
PARTS = "def scaled(x, a, weight):\n    return (x.float() * a * weight.float()).to(x.dtype)\n"
SOLUTIONS = {
    "returns": ("python", False, {"main.py": RIGHT, "parts.py": PARTS}),
    "writes": ("python", True, {"main.py": """
def run(x, a, weight, y, total):
    y.copy_(x.float() * a * weight)
    total.copy_(x.float().sum(-1))
"""}),
    "wrong": ("python", False, {"main.py": "def run(x, a, weight):\n    return x * weight, x.float().sum(-1)\n"}),
    "in-function": ("python", False, {"main.py": IN_FUNCTION, "parts.py": PARTS}),
    "in-function-wrong": ("python", False, {"main.py": IN_FUNCTION, "parts.py": PARTS.replace("* a", "+ a")}),
    "relative": ("python", False, {
        "kernel/main.py": IN_FUNCTION.replace("from parts", "from .parts"),
        "kernel/parts.py": PARTS,
    }),
    "lacks": ("python", False, {"main.py": IN_FUNCTION}),
    "native": ("cuda", False, {"main.cu": "no Python"}),
    "raises": ("python", False, {"main.py": "import parts\n", "parts.py": "\nraise KeyError('lost')\n"}),
}  # fmt: skip


def solution(definition: str, name: str, files: dict[str, str], language: str = "python", buffers: bool = False) -> str:
    spec = {
        "language": language,
        "target_hardware": ["local"],
        "entry_point": f"{next(iter(files))}::run",
        "destination_passing_style": buffers,
    }
    sources = [{"path": path, "content": content} for path, content in files.items()]
    return json.dumps({"name": name, "definition": definition, "author": "test", "spec": spec, "sources": sources})


def workload(rows: int, a: float) -> dict[str, object]:
    drawn = {"type": "random"}
    inputs = {"x": drawn, "a": {"type": "scalar", "value": a}, "weight": drawn}
    return {"uuid": f"of-{rows}-rows", "axes": {"M": rows}, "inputs": inputs}


WORKLOAD = f"{json.dumps(workload(3, 2.0))}\n{json.dumps(workload(40, 0.5))}\n"


@pytest.fixture(scope="module")
def trace_run(made_once: MadeOnce) -> Path:
    """The folder of one `kbench run problem` of a definition with two workloads and its solutions."""
    files = {
        f"problem/{name}.json": solution("scale_n8", name, files, language, buffers)
        for name, (language, buffers, files) in SOLUTIONS.items()
    }
    files |= {"problem/definition.json": json.dumps(DEFINITION), "problem/workload.jsonl": WORKLOAD}
    return folder_of(made_once, "trace", files, "run", "problem", *RUN)


def rows(folder: Path, provider: str) -> list[dict[str, str]]:
    [results] = (folder / "results").glob("*.csv")
    return [row for row in providers_of(results) if row["provider"] == provider]


def test_each_workload_of_a_trace_is_a_case_judged_in_float64_by_the_reference_which_is_the_baseline(
    trace_run: Path,
) -> None:
    assert [(row["M"], float(row["a"])) for row in rows(trace_run, "reference")] == [("3", 2.0), ("40", 0.5)]
    assert {row["dtype"] for row in rows(trace_run, "reference")} == {"bfloat16"}
    assert all(float(row["max_ulp"]) < 4 for row in rows(trace_run, "returns"))
    assert {float(row["speedup"]) for row in rows(trace_run, "reference")} == {1.0}


def test_each_solution_of_a_trace_is_a_provider(trace_run: Path) -> None:
    statuses = dict.fromkeys(("reference", "returns", "writes"), "ok")
    statuses |= {"wrong": "wrong", "native": "unavailable", "raises": "error"}
    for provider, status in statuses.items():
        assert {row["status"] for row in rows(trace_run, provider)} == {status}, provider
    assert kept(trace_run).code == 1


def test_a_solution_imports_its_own_files_also_when_it_is_called(trace_run: Path) -> None:
    for provider, status in {"in-function": "ok", "in-function-wrong": "wrong", "relative": "ok"}.items():
        assert {row["status"] for row in rows(trace_run, provider)} == {status}, provider
    assert all(row["status"] == "error" and "parts" in row["reason"] for row in rows(trace_run, "lacks"))


def test_the_reason_of_a_solution_names_its_file_and_line(trace_run: Path) -> None:
    [reason] = {row["reason"] for row in rows(trace_run, "raises")}
    assert "raises.json" in reason and "parts.py:2" in reason and "lost" in reason and "main.py" not in reason
    assert "cuda" in rows(trace_run, "native")[0]["reason"]


def test_a_definition_of_a_data_set_finds_its_workloads_and_solutions_and_shows_a_workload_if_it_has_none(
    write: Write, kbench: Kbench
) -> None:
    write("set/definitions/scaling/scale_n8.json", json.dumps(DEFINITION))
    shown = kbench("run", "set/definitions/scaling/scale_n8.json").err.partition(" such as ")[2]
    lines = {"definition": "scale_n8", "solution": None, "workload": workload(2, 2.0)}, json.loads(shown)
    write("set/workloads/scaling/scale_n8.jsonl", "\n".join(map(json.dumps, lines)))
    write("set/solutions/me/scaling/wrong.json", solution("scale_n8", "wrong", SOLUTIONS["wrong"][2]))
    ended = kbench("run", "set/definitions/scaling/scale_n8.json", "--dry-run")
    assert ended.code == 0 and "2 cases x 2 providers" in ended.out and "wrong: will run" in ended.out


NO_FUNCTION = solution("scale_n8", "mine", {"main.py": ""}).replace("main.py::run", "main.py")


def test_a_mistake_in_a_file_of_a_problem_is_named_with_the_file_and_the_field(write: Write, kbench: Kbench) -> None:
    files = {"definition.json": json.dumps(DEFINITION), "workload.jsonl": WORKLOAD, "mine.json": NO_FUNCTION}
    for name, content in files.items():
        write(f"problem/{name}", content)
    ended = kbench("run", "problem")
    assert ended.code != 0 and "Traceback" not in ended.err
    assert any("mine.json" in line and "entry_point" in line for line in ended.err.splitlines()), ended.err


# -- a problem whose reference does not run in float64: its own tolerance judges the outputs

STRICT, SHARE, TINY = 1000, 2000, 3000
"""Sizes: all elements must be right; 99 % of them; outputs near 1e-4, which the usual tolerance of 1e-2 exceeds."""

FACTOR = f"y = x * (2 if len(x) < {TINY} else 1e-4)"
SCALED = {
    "name": "scaled",
    "axes": {"N": {"type": "var"}},
    "inputs": {"x": {"shape": ["N"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["N"], "dtype": "float32"}},
    "reference": f"import torch\n\n\ndef run(x):\n    assert x.dtype == torch.float32\n    {FACTOR}\n    return y\n",
}
ENDS = {
    "right": "return y",
    "changes_x": "return x.mul_(2).clone()",
    "one_off": "y[7] += 1; return y",
    "one_inf": "y[7] = float('inf'); return y",
    "zeros": "return y * 0",
    "noise": "return torch.rand_like(y) * 1e-4",
    "half": "y[::2] = 0; return y",
}


@pytest.fixture
def scaled(made_once: MadeOnce) -> dict[tuple[str, int], Row]:
    """The row of each solution and size."""
    drawn = {"x": {"type": "random"}}
    share = {"tolerance": {"required_matched_ratio": 0.99}}
    work = [{"axes": {"N": n}, "inputs": drawn, **(share if n == SHARE else {})} for n in (STRICT, SHARE, TINY)]
    files = {"definition.json": json.dumps(SCALED), "workload.jsonl": "\n".join(map(json.dumps, work))}
    for name, end in ENDS.items():
        code = f"import torch\n\ndef run(x):\n    {FACTOR}\n    {end}\n"
        files[f"{name}.json"] = solution("scaled", name, {"main.py": code})
    folder = folder_of(made_once, "scaled", files, "run", ".", *RUN, "--out", "results")
    [results] = (folder / "results").glob("*.csv")
    return {(row["provider"], int(row["N"])): row for row in providers_of(results)}


def test_every_element_must_be_right_and_who_changes_an_input_gets_advice_that_an_author_can_follow(
    scaled: dict[tuple[str, int], Row],
) -> None:
    row = scaled["changes_x", STRICT]
    assert row["status"] == "wrong" and "changed its input x" in row["reason"] and "copy" in row["reason"]
    assert "mutates=" not in row["reason"]  # for providers that are registered in Python
    row = scaled["one_off", STRICT]
    assert row["status"] == "wrong" and "1 of 1,000 elements" in row["reason"]


def test_a_matched_ratio_lets_some_elements_be_off_but_not_infinite(scaled: dict[tuple[str, int], Row]) -> None:
    assert scaled["one_off", SHARE]["status"] == "ok"
    row = scaled["one_inf", SHARE]
    assert row["status"] == "wrong" and "finite" in row["reason"] and "1 of 2,000 elements" in row["reason"]


def test_a_tolerance_as_large_as_the_outputs_makes_no_zeros_and_no_noise_right_and_is_noted(
    scaled: dict[tuple[str, int], Row],
) -> None:
    for provider in ("zeros", "noise", "half"):
        assert scaled[provider, TINY]["status"] == "wrong", provider
    for provider in ("right", "reference"):
        row = scaled[provider, TINY]
        assert row["status"] == "ok" and "weak-check" in row["flags"]
        assert "atol 0.01" in row["reason"] and "0.0001" in row["reason"]
        assert scaled[provider, STRICT]["status"] == "ok" and "weak-check" not in scaled[provider, STRICT]["flags"]


# -- KernelBench

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 2 * features)

    def forward(self, x):
        x = x if x.sum() > 0 else 1 * x  # code that looks at values runs in float64 too
        return torch.softmax(self.linear(x), 1)

batch = 6
features = 8

def get_inputs():
    return [torch.rand(batch, features)]

def get_init_inputs():
    return [features]
"""
NEW = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = torch.randn(3)  # draws from the generator before the weights are made
        self.linear = nn.Linear(features, 2 * features)

    def forward(self, x):
        {body}
"""
BODIES = {
    "right": "return torch.softmax(self.linear(x), 1)",
    "zeros": "return torch.zeros_like(self.linear(x))",
    "imports": "from beside import imported\n        return imported(self.linear(x))",
    "raises": "return x.nothing()",
}
BESIDE = "import torch\n\ndef imported(x):\n    return torch.softmax(x, 1)\n"


@pytest.fixture(scope="module")
def model_run(made_once: MadeOnce) -> Path:
    """The folder of one `kbench run problem` of a KernelBench problem with its solutions."""
    files = {f"problem/{name}.py": NEW.format(body=body) for name, body in BODIES.items()}
    files |= {"problem/1_Softmax.py": MODEL, "problem/beside.py": BESIDE, "problem/typo.py": "class ModelNew(:\n"}
    files["elsewhere.py"] = "from problem.right import ModelNew\n"
    return folder_of(made_once, "model", files, "run", "problem", *RUN, "--plugin", "elsewhere.py")


def test_each_modelnew_is_a_provider_with_the_weights_of_the_model(model_run: Path) -> None:
    statuses = {"right": "ok", "imports": "ok", "elsewhere": "ok", "zeros": "wrong", "raises": "error", "typo": "error"}
    for provider, status in statuses.items():
        assert [row["status"] for row in rows(model_run, provider)] == [status], provider
    assert "typo.py:1" in rows(model_run, "typo")[0]["reason"]


def test_the_model_is_the_reference_and_the_baseline_and_its_bytes_include_the_weights(model_run: Path) -> None:
    [row] = rows(model_run, "reference")
    assert row["status"] == "ok" and float(row["speedup"]) == 1.0 and row["dtype"] == "float32"
    assert 0 < float(row["max_ulp"]) < 100, "the reference computes in float64"
    call_bytes = float(row["gbps"]) * float(row["ms"]) * 1e6
    inputs_and_outputs, weights = 4 * (6 * 8 + 6 * 16), 4 * (8 * 16 + 16)
    assert call_bytes == pytest.approx(inputs_and_outputs + weights)


INSISTS = """
import torch
from torch import nn

class {name}(nn.Module):
    def forward(self, x):
        assert x.dtype == torch.float32
        y = torch.softmax(x, 1)
        return {returned}

def get_inputs():
    return [torch.rand(2, 50000)]

def get_init_inputs():
    return []
"""
RETURNED = {"right": "y * 1", "zeros": "y * 0", "noise": "torch.rand_like(y) * 1e-5", "half": "y * (y > y.median())"}


def test_a_model_with_outputs_below_the_tolerance_of_kernelbench_is_not_replaced_by_zeros_or_noise(
    folder: Path, kbench: Kbench
) -> None:
    (folder / "problem").mkdir()
    (folder / "problem" / "1_Softmax.py").write_text(INSISTS.format(name="Model", returned="y"))
    for name, returned in RETURNED.items():
        (folder / "problem" / f"{name}.py").write_text(INSISTS.format(name="ModelNew", returned=returned))
    ended = kbench("run", "problem", *RUN)
    statuses = dict.fromkeys(("reference", "right"), "ok") | dict.fromkeys(("zeros", "noise", "half"), "wrong")
    for provider, status in statuses.items():
        assert [row["status"] for row in rows(folder, provider)] == [status], provider
    assert ended.code == 1 and "2 weak-check" in ended.out


def test_a_right_gelu_is_right_where_its_terms_cancel(folder: Path, kbench: Kbench) -> None:
    gelu = INSISTS.replace("assert x.dtype == torch.float32", "gelu = nn.functional.gelu").replace("rand(", "randn(")
    returned = {"steps": "x / 2 * (1 + torch.erf(x / 2**0.5))", "tanh": "gelu(x, approximate='tanh')"}
    (folder / "problem.py").write_text(gelu.format(name="Model", returned="gelu(x)"))
    for name in returned:
        (folder / f"{name}.py").write_text(gelu.format(name="ModelNew", returned=returned[name]))
    kbench("run", "problem.py", *RUN, "--plugin", "steps.py", "--plugin", "tanh.py")
    statuses = [row["status"] for provider in ("reference", *returned) for row in rows(folder, provider)]
    assert statuses == ["ok", "ok", "wrong"]


# -- check and judge

FLAT = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 2 * features)

    def forward(self, x):
        assert x.is_contiguous() and x.data_ptr() % 16 == 0
        values = torch.exp(self.linear(x))
        return values / {total}
"""
JUDGE = ("judge", *QUICK, "--shapes", 1)


@pytest.fixture(scope="module")
def judged(made_once: MadeOnce) -> Path:
    """A folder with the verdicts of solutions that lie elsewhere than their problem."""

    def make(folder: Path) -> None:
        (folder / "1_Softmax.py").write_text(MODEL)
        (folder / "right.py").write_text(FLAT.format(total="values.sum(1, keepdim=True)"))
        (folder / "tail.py").write_text(FLAT.format(total="values[:, :-1].sum(1, keepdim=True)"))
        (folder / "scale").mkdir()
        (folder / "scale/definition.json").write_text(json.dumps(DEFINITION))
        (folder / "scale/workload.jsonl").write_text(WORKLOAD)
        (folder / "solution.json").write_text(solution("scale_n8", "writes", SOLUTIONS["writes"][2], buffers=True))
        for name, file, problem in (("right", "right.py", "1_Softmax.py"), ("writes", "solution.json", "scale")):
            keep(run_kbench(*JUDGE, file, "--against", problem, "--json", folder=folder), folder, name)
        check = ("check", "1_Softmax.py", "--plugin", "tail.py", "--only", "tail", "--json")
        keep(run_kbench(*check, folder=folder), folder, "tail")

    return made_once("judged-problems", make)


TAKE = {
    "name": "take",
    "axes": {"T": {"type": "var"}, "R": {"type": "var"}},
    "inputs": {"table": {"shape": ["R", "4"], "dtype": "float32"}, "rows": {"shape": ["T"], "dtype": "int32"}},
    "outputs": {"y": {"shape": ["T", "4"], "dtype": "float32"}},
    "reference": "def run(table, rows):\n    return table[rows.long()] * 2\n",
}
STORED = {"type": "safetensors", "path": "rows.safetensors", "tensor_key": "rows"}


def test_a_workload_with_stored_inputs_has_its_sizes_only_and_set_chooses_it(kbench: Kbench, write: Write) -> None:
    write("definition.json", json.dumps(TAKE))
    inputs = {"table": {"type": "random"}, "rows": STORED}
    work = [{"uuid": uuid, "axes": {"T": t, "R": 9}, "inputs": inputs} for uuid, t in (("other", 5), ("w", 2))]
    write("workload.jsonl", "\n".join(map(json.dumps, work)))
    header = json.dumps({"rows": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}})
    write("rows.safetensors", f"{chr(len(header))}{chr(0) * 7}{header}" + "\b\0\0\0" + "\1\0\0\0")
    write("mine.json", solution("take", "mine", {"main.py": "def run(table, rows): return 2 * table[rows.long()]\n"}))
    ended = kbench(*JUDGE, "mine.json", "--against", "definition.json", "--json", "--set", "workload=w")
    answer = json.loads(ended.out)
    assert answer["providers"][0]["correct"] and answer["random_shapes"] == 0 and answer["of_cases"] == 1
    assert "left out" not in ended.err


def test_a_right_solution_of_a_problem_passes_and_may_count_on_inputs_without_gaps(judged: Path) -> None:
    for name in ("right", "writes"):
        answer = json.loads(kept(judged, name).out)
        [provider] = answer["providers"]
        assert kept(judged, name).code == 0 and provider["provider"] == name
        assert [baseline["baseline"] for baseline in provider["baselines"]] == ["reference"]
    assert json.loads(kept(judged, "writes").out)["random_shapes"] == 1
    assert json.loads(kept(judged, "right").out)["random_shapes"] == 0, "a model has the sizes of its file"


def test_a_wrong_solution_of_a_problem_fails_and_the_command_that_repeats_it_works(
    judged: Path, folder: Path, kbench: Kbench
) -> None:
    [provider] = json.loads(kept(judged, "tail").out)["providers"]
    assert kept(judged, "tail").code == 1 and provider["verdict"] == "wrong"
    for file in ("1_Softmax.py", "tail.py"):
        (folder / file).write_text((judged / file).read_text())
    ended = kbench(*shlex.split(provider["failures"][0]["reproduce"])[1:])
    assert ended.code == 1 and "tail: wrong" in ended.out


def test_a_file_that_is_no_solution_of_the_problem_is_named(judged: Path, kbench: Kbench) -> None:
    model, definition, writes = judged / "1_Softmax.py", judged / "scale", judged / "solution.json"
    other = judged / "other.json"
    other.write_text(solution("something_else", "mine", SOLUTIONS["writes"][2]))
    for file, problem, word in ((writes, model, "ModelNew"), (other, definition, "scale_n8")):
        ended = kbench("check", problem, "--plugin", file)
        assert ended.code == 2 and file.name in ended.err and word in ended.err
