"""`--where`: which rows a condition chooses, and what a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.errors import UsageError
from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.reader import Results, read_results
from kbench.results.row import Row
from kbench.results.row_filter import RowFilter
from kbench.results.vocabulary import Role

CONFIGURATIONS = [
    ("cuda", ""),
    ("triton", ""),
    ("triton-row", "num_warps=4"),
    ("triton-row", "num_warps=8,num_stages=2"),
]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    rows = []
    for n in (256, 4096, 1 << 20):
        for dtype in ("float32", "bfloat16"):
            case = Case("gelu", {"M": 64, "N": n, "approximate": "tanh"}, dtype)
            where = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200"}
            rows += [Row(case, *configuration, ms=1.0, **where) for configuration in CONFIGURATIONS]  # type: ignore[arg-type]
            rows += [Row(case, "copy", role=Role.CONTROL, ms=1.0)]
    rows[0].flags = ("noisy", "throttled")
    rows[1].session = 1
    rows[2] = Row(rows[2].case, *CONFIGURATIONS[2], status="oom", reason="out of memory")  # type: ignore[arg-type]
    Writer(tmp_path / "a.csv", ("M", "N", "approximate")).begin().write(rows)
    return read_results(tmp_path / "a.csv")


def chosen(results: Results, text: str) -> list[Row]:
    """The rows of providers that a condition chooses."""
    return RowFilter.parse(text).select(results).provider_rows


def names(results: Results) -> list[str]:
    return [row.provider for row in results.rows]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 24),
        ("N=256", 8),
        ("N=4K|1M", 16),
        ("N=4k,1M,dtype=bf16,fp32", 16),
        ("N!=256,4096,status=ok", 8),
        ("N<=4k", 16),
        (" N > 256 , dtype = bf16 ", 8),
        ("dtype=*16", 12),
        ("operator=gelu,approximate=tanh,role=provider,session=0", 23),
        ("device=NVIDIA*,timer=do_bench,cache=cold", 23),
        ("session>0", 1),
        ("flags=throttled|suspect", 1),
        ("flags=", 23),
        ("params=", 12),
    ],
)
def test_how_many_rows(results: Results, text: str, count: int) -> None:
    assert len(chosen(results, text)) == count


@pytest.mark.parametrize(
    ("text", "configurations"),
    [
        ("provider=triton*", CONFIGURATIONS[1:]),
        ("provider=cuda,triton-row[num_warps=4],N=256", [CONFIGURATIONS[0], CONFIGURATIONS[2]]),
        ("provider=triton-row[num_warps=8,num_stages=2],cuda", [CONFIGURATIONS[0], CONFIGURATIONS[3]]),
        ("provider!=triton-row[num_warps=4]", [*CONFIGURATIONS[:2], CONFIGURATIONS[3]]),
        ("provider=triton-row[num_warps=?,*]|c?da", [CONFIGURATIONS[0], CONFIGURATIONS[3]]),
        ("provider=[a-z]*", []),
    ],
)
def test_providers_and_configurations(results: Results, text: str, configurations: list[tuple[str, str]]) -> None:
    assert list(dict.fromkeys((row.provider, row.params) for row in chosen(results, text))) == configurations


def test_controls_stay_with_the_cases_that_are_chosen(results: Results) -> None:
    assert names(RowFilter.parse("provider=triton,status=ok,N=256").select(results)) == ["triton", "copy"] * 2
    assert names(RowFilter.parse("provider=copy,role=control,N=256").select(results)) == ["copy"] * 2
    assert names(RowFilter.parse("role=provider,N=256,provider=cuda").select(results)) == ["cuda"] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("N", ['"N"', "N=1024,4096"]),
        ("=256", ['"=256"', "N=1024,4096"]),
        ("N=>256", ['"N=>256"', "N=1024,4096"]),
        ("N>=256,4096", ["several values after >="]),
        ("4096,N=256", ['"4096"', "N=1024,4096"]),
        ("N=", ['"" is not a number']),
        ("provider>=triton", ["provider holds words"]),
        ("dtpe=bf16", ['a.csv: unknown column "dtpe"; did you mean "dtype"?']),
        ("ms>3", ['"ms>3"', "choose from operator, provider"]),
        ("colour=red", ["choose from operator, provider, params, M, N, approximate, dtype, role"]),
    ],
)
def test_wrong_conditions(results: Results, text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        RowFilter.parse(text).select(results)
    message = str(caught.value)
    assert message.startswith('"') and len(message.splitlines()) == 1
    for word in words:
        assert word in message


def test_a_file_without_modes_has_forward_rows(results: Results) -> None:
    assert len(chosen(results, "mode=forward")) == len(chosen(results, "mode!=backward,full")) == 24
    where = RowFilter.parse("N=256,mode=backward")
    assert not where.select(results).provider_rows
    reason = "no row has mode=backward among those with N=256; mode is forward in all of them"
    assert where.nothing(results).endswith(reason)


def test_brackets_in_the_value_of_a_parameter_belong_to_the_name(tmp_path: Path) -> None:
    params = ("tile=[8,8],warps=4", "tile=[8,16],warps=4")
    case = Case("gelu", {"M": 64, "N": 256}, "float32")
    where = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200"}
    Writer(tmp_path / "b.csv", ("M", "N")).begin().write([Row(case, "t", each, ms=1.0, **where) for each in params])  # type: ignore[arg-type]
    results = read_results(tmp_path / "b.csv")
    assert [row.params for row in chosen(results, f"provider=t[{params[0]}],N=256")] == [params[0]]
    assert [row.params for row in chosen(results, f"N=256,provider=t[{params[0]}],t[{params[1]}],M=64")] == [*params]
