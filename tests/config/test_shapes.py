"""A CSV of shapes in place of the sizes of a config: its cases and weights, and what a mistake in it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_executor import machine_info

from kbench.config import load as configs
from kbench.config.resolve import Sweep
from kbench.contract.tensor import Layout
from kbench.errors import ConfigError
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo

MATRIX = {"x": Layout(("M", "N"))}
NORM = OperatorInfo(
    axes=("M", "N"),
    choices={"order": ("up", "down"), "mode": ("forward", "backward", "full")},
    dtypes=("float32", "bfloat16"),
    providers={"torch": ProviderInfo("torch")},
    scalars={"eps": 1e-6, "causal": False},
    inputs=MATRIX,
    outputs=MATRIX,
    gradients=("x",),
    model_axes=({"M": "tokens", "N": "hidden"},),
)
SWEEP = "{M: [1, 2], N: 3, dtype: bfloat16, eps: 1e-5}"


def resolve(csv: str | bytes, sweep: str = SWEEP, **options: Any) -> Sweep:
    Path("trace.csv").write_bytes(csv.encode() if isinstance(csv, str) else csv)
    return resolve_file(Path("trace.csv"), sweep, **options)


def resolve_file(shapes: Path, sweep: str = SWEEP, **options: Any) -> Sweep:
    catalog = Catalog(DeviceInfo("cuda", ""), (), {"norm": NORM}, (), machine_info())
    Path("x.yaml").write_text(f"operator: norm\nsweep: {sweep}\nproviders: [torch]\n")
    return configs.load_config("x.yaml", shapes=shapes, **options).resolve(catalog)


def weighted(sweep: Sweep) -> dict[tuple[Any, ...], float | None]:
    return {(*case.axes.values(), case.dtype): sweep.weights.get(case) for case in sweep.cases}


def problem(csv: str | bytes, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(csv, **options)
    return str(caught.value)


def test_the_shapes_replace_the_sizes_and_the_config_gives_what_has_no_column() -> None:
    found = resolve("M,N,weight\n16,4096,2.5\n1,7,100\n")
    assert weighted(found) == {
        (16, 4096, 1e-5, False, "up", "forward", "bfloat16"): 2.5,
        (1, 7, 1e-5, False, "up", "forward", "bfloat16"): 100.0,
    }


def test_columns_may_be_dtypes_modes_choices_scalars_and_models() -> None:
    csv = "model,tokens,dtype,mode,order,eps,causal\nqwen3-8b,5,fp32,backward,down,0.5,true\n"
    found = resolve(csv)
    assert list(weighted(found)) == [(5, 4096, 0.5, True, "down", "backward", "float32")]
    assert list(found.models.values()) == ["qwen3-8b"]


def test_without_weights_each_line_counts_once() -> None:
    assert list(weighted(resolve("M,N\n1,2\n4,5\n1,2\n")).values()) == [2.0, 1.0]
    assert list(weighted(resolve("M,N\n1,2\n4,5\n")).values()) == [None, None], "nothing is to be weighted"
    assert list(weighted(resolve("M,N,weight\n1,2,1\n4,5,1\n")).values()) == [1.0, 1.0], "the user asked for it"


def test_a_list_of_sweeps_does_not_count_a_line_twice() -> None:
    found = resolve("M,N,weight\n1,2,3\n", "[{M: 1, N: 1, dtype: [float32, bfloat16]}, {M: 5, N: 6, dtype: bfloat16}]")
    assert [(case.M, case.N, case.dtype) for case in found.cases] == [(1, 2, "float32"), (1, 2, "bfloat16")]
    assert list(found.weights.values()) == [3.0, 3.0]


@pytest.mark.parametrize(
    "csv",
    [
        '"M","N","weight"\r\n"1", "2" ,"3"\r\n\r\n',
        "\ufeffM, N, weight\n1, 2, 3",
        "N,weight,M\n2,3.0,1\n",
        "M,N,weight\n1,2,3e0\n",
        "M,\tN,\tweight\n1,\t2,\t3\t\n",
    ],
)
def test_spreadsheets_write_csv_in_many_ways(csv: str) -> None:
    assert weighted(resolve(csv)) == {(1, 2, 1e-5, False, "up", "forward", "bfloat16"): 3.0}


HEAD = "trace.csv: expected the names of the columns, for example M,N,weight, and a line for each shape"


@pytest.mark.parametrize(
    ("csv", "told"),
    [
        ("", HEAD),
        ("M,N\n", HEAD),
        ("M,N,weight\n1,2,0\n3,4,-1", "trace.csv:2:5: weight: expected a positive number; got 0"),
        ("M,N,weight\n1,2,often\n", 'trace.csv:2:5: weight: expected a positive number; got "often"'),
        ("M,N\n1,2\n10,x\n1,y\n", 'trace.csv:3:4: N: expected an integer; got "x"'),
        (
            "M,N\n1,2\n1,2,3\n",
            "trace.csv:3:1: this line has 3 fields, and the first line has 2 fields; repair the line",
        ),
        ("M,N\n1,\n", "trace.csv:2:3: N: expected an integer; got nothing"),
        ("M,N,M\n1,2,3\n", "trace.csv:1:1: two columns have the same name"),
        ("M,N,K\n1,2,3\n", 'trace.csv:1:5: unknown key "K"; choose from '),
        ("M,N,wieght\n1,2,3\n", 'trace.csv:1:5: unknown key "wieght"; did you mean "weight"?'),
        ("M,weight\n1,2\n", "trace.csv:2:1: sweep: no values for N; give sizes"),
        ("M,N,dtype\n1,2,bf61\n", 'trace.csv:2:5: unknown dtype "bf61"; did you mean "bf16"?'),
        ("model,tokens\nquen3-8b,1\n", 'trace.csv:2:1: unknown model "quen3-8b"; did you mean "qwen3-8b"?'),
        (b"M,N\n1,\xff\n", "trace.csv: is no CSV in UTF-8: "),
    ],
)
def test_a_malformed_file_gives_one_error_with_its_place(csv: str | bytes, told: str) -> None:
    found = problem(csv)
    assert found.startswith(told), found
    assert "\n" not in found


def test_sizes_of_the_command_line_contradict_the_file() -> None:
    assert (
        problem("M,N\n1,2\n", sets=["N=4"])
        == "--set N=4: trace.csv gives the shapes already; leave out --set N, or --shapes"
    )
    assert problem("model,tokens\nqwen3-8b,2\n", sets=["M=4"]).startswith("--set M=4: trace.csv gives the shapes")
    assert [case.dtype for case in resolve("M,N\n1,2\n", sets=["dtype=float32"]).cases] == ["float32"]
