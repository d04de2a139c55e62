"""Operators and providers of plug-ins: what is checked, what is timed, and what their rows say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from promises.outside import ROOT, Ended, Kbench, MadeOnce, Rows, Write, folder_of, kept, rows_of

OPERATORS = Path(__file__).with_name("operators")


def fixture_of_run(name: str) -> Any:
    """A fixture of the rows of one run of the config `operators/NAME.yaml`. Every plug-in has providers that are wrong."""

    @pytest.fixture(name=name)
    def rows(made_once: MadeOnce) -> Rows:
        folder = folder_of(made_once, name, {}, "run", OPERATORS / f"{name}.yaml", "--no-plot")
        assert kept(folder).code == 1
        return rows_of(folder / "results" / f"{name}.csv")

    return rows


pairs_run = fixture_of_run("pairs")  # several inputs and outputs, one of them integer, a scalar and a choice
axpy_run = fixture_of_run("axpy")  # in place, and into a buffer
scale_run = fixture_of_run("scale")  # gradients of two inputs
dropout_run = fixture_of_run("dropout")  # a check of its own
ragged_run = fixture_of_run("ragged")  # segments whose lengths are drawn, with two distributions


@pytest.fixture
def rounded(made_once: MadeOnce) -> Ended:
    """What `kbench check` says about integer outputs and an edge input."""
    return kept(folder_of(made_once, "rounded", {}, "check", OPERATORS / "rounded.yaml"))


def of(rows: Rows, provider: str, **values: str) -> Rows:
    """The rows of a provider with these values. At least one."""
    chosen = [row for row in rows if row["provider"] == provider and all(row[k] == v for k, v in values.items())]
    assert chosen, f"no row of {provider} with {values}"
    return chosen


def timed(rows: Rows) -> Rows:
    """The rows of providers that have a time. At least one."""
    chosen = [row for row in rows if row["role"] == "provider" and row["status"] == "ok"]
    assert chosen
    return chosen


def statuses(rows: Rows) -> set[str]:
    return {row["status"] for row in rows}


def bytes_of(row: dict[str, str]) -> int:
    """Each input read once, each output written once."""
    M, D, size = int(row["M"]), int(row["D"]), {"float32": 4, "bfloat16": 2}[row["dtype"]]
    return (M * D + D // 2) * size + M * 8 + M * D // 2 * size + M * 4


def copy_of(rows: Rows, row: dict[str, str]) -> dict[str, str]:
    [copy] = of(rows, "copy", **{name: row[name] for name in ("M", "D", "factor", "form", "dtype", "session")})
    return copy


def test_the_columns_of_the_file_are_those_of_the_docs(pairs: Rows) -> None:
    page = (ROOT / "docs" / "reference" / "csv.md").read_text()
    documented = page.partition("<!-- generated: columns -->")[2].partition("<!-- end -->")[0]
    names = [
        name for line in re.findall(r"^- (.*?) \(", documented, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)
    ]
    assert set(pairs[0]) - {"M", "D", "factor", "form"} == set(names)


def test_gbps_is_the_bytes_of_inputs_and_outputs_divided_by_the_time_and_copy_fraction_its_ratio(pairs: Rows) -> None:
    for row in timed(pairs):
        assert float(row["gbps"]) == pytest.approx(bytes_of(row) / float(row["ms"]) / 1e6, rel=1e-6)
        assert float(row["gbps_p20"]) == pytest.approx(bytes_of(row) / float(row["ms_p80"]) / 1e6, rel=1e-6)
        assert float(row["gbps_p80"]) == pytest.approx(bytes_of(row) / float(row["ms_p20"]) / 1e6, rel=1e-6)
    for row in timed(pairs):
        copy = copy_of(pairs, row)
        assert float(row["copy_fraction"]) == pytest.approx(float(row["gbps"]) / float(copy["gbps"]), rel=1e-6)
        if row["D"] == "64" and row["dtype"] == "float32":
            assert float(copy["gbps"]) == pytest.approx(bytes_of(copy) / float(copy["ms"]) / 1e6, rel=0.01)


def test_tflops_and_achieved_gbps_are_what_operator_and_provider_count_divided_by_the_time(pairs: Rows) -> None:
    for row in timed(pairs):
        operations = 1000 * int(row["M"]) * int(row["D"])
        assert float(row["tflops"]) == pytest.approx(operations / float(row["ms"]) / 1e9, rel=1e-6)
    for row in of(pairs, "torch"):
        assert float(row["achieved_gbps"]) == pytest.approx(12345 / float(row["ms"]) / 1e6, rel=1e-6)
    assert not any(row["achieved_gbps"] for row in of(pairs, "factory"))


def test_sol_is_the_shortest_possible_time_divided_by_the_time(pairs: Rows) -> None:
    rows = [row for row in timed(pairs) if row["ceiling_tflops"]]
    assert rows
    for row in rows:
        for_bytes_ms = bytes_of(row) / float(row["ceiling_gbps"]) / 1e6
        for_flops_ms = 1000 * int(row["M"]) * int(row["D"]) / float(row["ceiling_tflops"]) / 1e9
        assert float(row["sol"]) == pytest.approx(max(for_bytes_ms, for_flops_ms) / float(row["ms"]), rel=1e-6)


def test_an_error_within_the_tolerance_is_right_and_one_beyond_it_is_wrong(pairs: Rows) -> None:
    rows = of(pairs, "within-tolerance")
    assert statuses(rows) == {"ok"}
    assert all(2 <= float(row["max_ulp"]) <= 64 for row in rows if row["dtype"] == "float32")
    rows = of(pairs, "beyond-tolerance")
    assert statuses(rows) == {"wrong"} and all("picked" in row["reason"] and "ulp" in row["reason"] for row in rows)


def test_a_factory_gets_the_case_and_returns_the_function_to_time(pairs: Rows) -> None:
    rows = of(pairs, "factory")
    assert statuses(rows) == {"ok"} and all(float(row["build_ms"]) > 0 for row in rows)
    assert {row["params"] for row in rows} == {"block=1", "block=2"}


def test_inputs_have_the_dtypes_the_sizes_and_the_values_that_the_operator_declares(pairs: Rows) -> None:
    assert {row["reason"] for row in of(pairs, "looks-at-inputs") if row["status"] != "ok"} == set()


def test_a_function_without_the_argument_of_a_scalar_gets_cases_with_its_default_only(pairs: Rows) -> None:
    assert statuses(of(pairs, "default-only", form="plain")) == {"ok"}
    [row] = of(pairs, "default-only", form="squared")
    assert row["status"] == "unsupported" and ("factor" in row["reason"] or "form" in row["reason"])


def test_a_provider_that_cannot_run_is_no_failure_and_its_row_says_why(pairs: Rows) -> None:
    assert statuses(of(pairs, "declines", D="64")) == {"ok"}
    for provider, status, reason in (
        ("declines", "unsupported", "D is below 8"),
        ("raises-unsupported", "unsupported", "only on Sundays"),
        ("without-package", "unavailable", "a_package_that_nobody_has"),
        ("not-available", "unavailable", "the licence has expired"),
        ("other-device", "unavailable", "npu"),
    ):
        rows = of(pairs, provider, D="4")
        assert statuses(rows) == {status} and all(reason in row["reason"] for row in rows), rows


def test_a_wrong_output_gets_no_time_and_is_named(pairs: Rows) -> None:
    for provider, word in {"one-output": "1", "expanded": "memory"}.items():
        rows = of(pairs, provider)
        assert statuses(rows) == {"wrong"} and not any(row["ms"] or row["gbps"] for row in rows)
        assert all("picked" in row["reason"] and word in row["reason"] for row in rows), rows[0]["reason"]


# ---------------------------------------------------------------- in place and into a buffer


def test_a_provider_may_write_into_a_buffer_or_an_input_that_it_declares(axpy: Rows) -> None:
    """An input is written back before each call."""
    assert statuses(of(axpy, "in-place")) == statuses(of(axpy, "buffer")) == {"ok"}
    assert statuses(of(axpy, "in-place-and-wrong")) == statuses(of(axpy, "empty-buffer")) == {"wrong"}
    for provider, word in {
        "leaves-its-input": "y unchanged",
        "fills-once": "NaN",
        "moves-its-buffer": "memory",
    }.items():
        assert all(row["status"] == "wrong" and word in row["reason"] for row in of(axpy, provider)), provider


def test_a_gradient_that_a_provider_asks_for_is_asked_of_no_other(axpy: Rows) -> None:
    assert statuses(of(axpy, "asks-for-gradients")) == statuses(of(axpy, "after-it")) == {"ok"}


def test_the_tolerance_of_an_operator_is_what_its_providers_may_be_off_by(axpy: Rows) -> None:
    """64 ulp of float32, for which the operator `pairs` leaves room and this one does not, and 4 of bfloat16."""
    assert {row["dtype"]: row["status"] for row in of(axpy, "imprecise")} == {"float32": "wrong", "bfloat16": "wrong"}
    assert all(float(row["max_ulp"]) < 2 for row in of(axpy, "new"))


# ---------------------------------------------------------------- gradients


def modes(rows: Rows) -> dict[str, str]:
    return {row["mode"]: row["status"] for row in rows}


def test_a_provider_is_measured_in_the_modes_for_which_it_has_a_gradient_or_a_function(scale: Rows) -> None:
    for provider in ("autograd", "kernel", "saves"):
        assert set(modes(of(scale, provider)).values()) == {"ok"}
    assert modes(of(scale, "both-at-once")) == {"forward": "ok", "backward": "unsupported", "full": "ok"}
    assert modes(of(scale, "opaque")) == {"forward": "ok", "backward": "unsupported", "full": "unsupported"}


def test_a_wrong_gradient_is_named_in_the_modes_with_gradients(scale: Rows) -> None:
    rows = of(scale, "wrong-gradient")
    assert modes(rows) == {"forward": "ok", "backward": "wrong", "full": "wrong"}
    assert all("gradient" in row["reason"] and "weight" in row["reason"] for row in rows if row["status"] == "wrong")


def test_gbps_of_a_backward_pass_counts_the_gradients_and_of_a_full_pass_both_passes(scale: Rows) -> None:
    x, weight = 4 * 60 * 4, 60 * 4
    forward, backward = (x + weight) + x, (x + weight) + x + (x + weight)
    for mode, count in {"forward": forward, "backward": backward, "full": forward + backward}.items():
        for row in of(scale, "autograd", mode=mode):
            assert float(row["gbps"]) == pytest.approx(count / float(row["ms"]) / 1e6, rel=1e-6)


# ---------------------------------------------------------------- work that depends on the drawn inputs


def test_flops_and_bytes_may_count_the_drawn_inputs(ragged: Rows) -> None:
    for lengths, squares in {"equal": 6 * 8**2, "skewed": 38**2 + 5 * 2**2}.items():
        [row] = of(ragged, "torch", lengths=lengths)
        assert float(row["tflops"]) == pytest.approx(1000 * squares / float(row["ms"]) / 1e9, rel=1e-6)
        assert float(row["gbps"]) == pytest.approx(squares / float(row["ms"]) / 1e6, rel=1e-6)


def test_a_choice_that_the_reference_does_not_take_is_swept_and_no_provider_takes_it(ragged: Rows) -> None:
    assert [(row["lengths"], row["status"]) for row in of(ragged, "torch")] == [("equal", "ok"), ("skewed", "ok")]


def test_other_segments_a_missing_segment_and_a_plan_for_a_pointer_are_wrong(ragged: Rows) -> None:
    for provider in ("other-segments", "drops-last"):
        assert statuses(of(ragged, provider)) == {"wrong"}
    # whether a check finds it or a timed call, depends on which memory is used again
    assert [row["status"] for row in of(ragged, "plans-by-pointer", lengths="skewed")] == ["wrong"]


# ---------------------------------------------------------------- a check of its own, and edge inputs


def test_the_check_of_an_operator_judges_the_values_and_gives_the_reason(dropout: Rows) -> None:
    [row], [keeps_all], [adds] = (of(dropout, provider, N="1000") for provider in ("torch", "keeps-all", "adds"))
    assert row["status"] == "ok" and row["max_ulp"] == ""
    assert keeps_all["status"] == "wrong" and "all elements were treated alike" in keeps_all["reason"]
    assert adds["status"] == "wrong" and "neither 0 nor twice the input" in adds["reason"]
    [short] = of(dropout, "short", N="1000")  # kbench checks the shapes beside it
    assert short["status"] == "wrong" and "999" in short["reason"]


def test_check_tries_random_and_edge_inputs_and_an_integer_may_be_off_by_the_ulps_that_it_declares(
    rounded: Ended,
) -> None:
    def cells(edge: str) -> list[str]:
        """The cells of the providers for one edge input, in the order of the config."""
        [line] = [line for line in rounded.out.splitlines() if line.startswith(edge)]
        return [cell.split()[0] for cell in line.removeprefix(edge).split("  ") if cell.strip()]

    assert cells("random") == ["ok", "ok", "wrong", "ok"]
    assert cells("all negative") == ["ok", "ok", "wrong", "wrong"]
    assert rounded.code == 1 and "positive-only" in rounded.text and "sign" in rounded.text


# ---------------------------------------------------------------- a count that is wrong, and the hash of the code


def test_a_row_faster_than_the_device_is_suspect_and_names_the_wrong_count(
    dropout: Rows, made_once: MadeOnce, kbench: Kbench
) -> None:
    right, wrong = of(dropout, "torch")
    assert "suspect" in wrong["flags"].split(";")
    assert "bytes=" in wrong["reason"] and "1,000,000,000,000" in wrong["reason"] and "GB/s" in wrong["reason"]
    assert "suspect" not in right["flags"] and right["reason"] == ""
    folder = made_once("dropout", lambda folder: None)
    out = kbench("show", folder / "results" / "dropout.csv", "--where", "N=64").out
    assert "suspect" in out and not any(line.lstrip().startswith(":") for line in out.splitlines())


HASHED = """
from pathlib import Path

import kbench


@kbench.operator("softmax").provider("@NAME@", sources=[@SOURCES@], available=lambda: "to save time")
def hashed(x):
    return x + x
"""
SOURCES = {
    "includes": 'Path(__file__).with_name("mine.cu")',
    "listed": 'Path(__file__).with_name("table.txt")',
    "neither": "",
}


def test_the_source_hash_covers_all_files_of_a_provider(kbench: Kbench, write: Write, folder: Path) -> None:
    plugins: list[str] = []
    for name, sources in SOURCES.items():
        write(f"{name}.py", HASHED.replace("@NAME@", name).replace("@SOURCES@", sources))
        plugins += ["--plugin", f"{name}.py"]
    write("mine.cu", '#include "mine.cuh"\n')
    one_case = ("--set", "M=4", "--set", "N=8", "--set", "dtype=fp32", "--no-plot", "--only", ",".join(SOURCES))

    def source_hashes(line: str) -> dict[str, str]:
        """The hashes while this line is in each file but the plug-ins and the source that includes a header."""
        for name in ("mine.cuh", "table.txt", "other.cuh", "helper.py"):
            write(name, line)
        assert kbench("run", "softmax", *plugins, *one_case).code == 3
        rows = rows_of(folder / "results" / "softmax.csv")
        return {row["provider"]: row["source_hash"] for row in rows if row["provider"] in SOURCES}

    before, after = source_hashes("1\n"), source_hashes("2\n")
    assert [len(before[name]) for name in SOURCES] == [12, 12, 12]
    assert [before[name] != after[name] for name in SOURCES] == [True, True, False]


# ---------------------------------------------------------------- mistakes in an operator

SOUND = """import kbench

X = kbench.Tensor("M", "N")
SOUND = {"axes": ("M", "N"), "inputs": {"x": X}, "outputs": {"y": X}, "reference": lambda x: x}
K = {"axes": ("M", "N", "K"), "outputs": {"y": kbench.Tensor("M", "K")}, "reference": lambda x, *, K: x[:, :K]}
"""

# The faulty statement of a plug-in that begins with SOUND, and the words that the sentence about it must hold.
DECLARATIONS = [
    ('Operator("mine", **SOUND | {"outputs": {"y": kbench.Tensor("M", "K")}})', "y", "K"),
    ('Operator("mine", **SOUND | {"inputs": {"x": kbench.Tensor("M", dtype="int64")}})', "x", "int64", "fill"),
    ('Operator("mine", **SOUND | {"inputs": {"x": kbench.Tensor("M", dtype="int3")}})', "x", "int3", "int32"),
    ('Operator("mine", **SOUND | {"inputs": {"x": kbench.Tensor("M N")}})', "M N"),
    ('Operator("mine", **SOUND | {"inputs": {"x": ("M", "N")}})', "x", "('M', 'N')", "kbench.Tensor"),
    ('Operator("mine", **SOUND, scalars={"N": 1})', "N"),
    ('Operator("mine", **SOUND, scalars={"ms": 1})', "ms"),
    ('Operator("mine", **SOUND, scalars={"eps": 1.0})', "reference", "eps"),
    ('Operator("mine", **SOUND, choices={"form": ()})', "form"),
    ('Operator("mine", **SOUND, rows="K")', "rows", "K"),
    ('Operator("mine", **SOUND, gradients="w")', "gradients", "w"),
    ('Operator("mine", **SOUND, mutates={"x": "z"})', "mutates", "z"),
    ('Operator("mine", **SOUND, tolerance=-1)', "tolerance", "-1"),
    ('Operator("mine", **SOUND, tolerence=4)', "tolerence"),
    (
        'Operator("mine", **SOUND).provider("a")(lambda x, *, N: x)',
        "'a'",
        "N",
        "factory=True",
        "read the size from the inputs",
    ),
    ('Operator("mine", **SOUND | K).provider("a")(lambda x, *, K: x)', "'a'", "K", "factory=True"),
    ('Operator("mine", **SOUND).provider("a", mutates={"w": "y"})(lambda x: x)', "'a'", "mutates", "w"),
    ('operator("softmax").provider("torch-native")(lambda x: x)', "softmax", "torch-native"),
]


def test_a_mistake_in_a_declaration_is_one_sentence_with_the_file_and_the_line(kbench: Kbench, write: Write) -> None:
    files = [f"m{index}.py" for index in range(len(DECLARATIONS))]
    for file, (statement, *_) in zip(files, DECLARATIONS, strict=True):
        write(file, f"{SOUND}kbench.{statement}\n".replace('"mine"', f'"mine_{file[:-3]}"'))
    write("x.yaml", f"operator: a\nplugins: [{', '.join(files)}]\nsweep: {{M: 1, N: 1}}\nproviders: [a]\n")
    ended = kbench("run", "x.yaml", "--dry-run")
    assert ended.code == 2
    for file, (statement, *words) in zip(files, DECLARATIONS, strict=True):
        said = [line for line in ended.err.splitlines() if f"{file}:6:" in line]
        assert len(said) == 1, f"{statement}:\n{ended.err}"
        assert all(word in said[0].partition(f"{file}:6:")[2] for word in words), f"{statement}: {said[0]}"


def test_a_fault_of_the_reference_is_an_error_of_the_operator_before_anything_is_timed(
    kbench: Kbench, write: Write, folder: Path
) -> None:
    operator = 'mine = kbench.Operator("mine", **SOUND | {"reference": lambda x: x[:1]})'
    write("mine.py", f'{SOUND}{operator}\nmine.provider("a")(lambda x: x.clone())\n')
    write("x.yaml", "operator: mine\nplugins: [mine.py]\nsweep: {M: 4, N: 6}\nproviders: [a]\n")
    ended = kbench("run", "x.yaml")
    assert ended.code == 2 and "mine.py:" in ended.err and not (folder / "results").exists(), ended.text
    assert all(word in ended.err for word in ("reference", "y", "(1, 6)", "(4, 6)")), ended.err


def test_a_fault_of_an_edge_input_is_named_with_the_file_and_the_line_of_the_operator(
    kbench: Kbench, write: Write
) -> None:
    write("mine.py", f'{SOUND}mine = kbench.Operator("mine", **SOUND, edges={{"zeros": 0}})\n')
    write("more.py", 'import kbench\nkbench.operator("mine").provider("a")(lambda x: x.clone())\n')
    write("x.yaml", "operator: mine\nplugins: [mine.py, more.py]\nsweep: {M: 4, N: 6}\nproviders: [a]\n")
    ended = kbench("check", "x.yaml")
    assert ended.code == 2
    [line] = [line for line in ended.err.splitlines() if "mine.py:6:" in line]
    assert "mine" in line and "zeros" in line
