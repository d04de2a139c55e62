"""The arguments of a script's function as columns, what a script reports, and what do_bench returns."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from kbench.measure.scripts.closures import doubted_bytes, tensor_bytes, tensors_of
from kbench.measure.scripts.columns import argument_columns, word, words_of
from kbench.measure.scripts.foreign_timers import TIMERS, BenchCall, Timing, replace_timers
from kbench.measure.scripts.plot import counted_work, divided_by


def cells(**values: list[object]) -> dict[str, list[object]]:
    """What stands in each column, for arguments that are given as lists of values."""
    points = [dict(zip(values, point, strict=True)) for point in zip(*values.values(), strict=True)]
    return {
        column.name: [column.value(point[column.argument]) for point in points] for column in argument_columns(points)
    }


def test_numbers_stay_numbers_and_of_a_mixture_all_are_floats() -> None:
    columns = cells(M=[256, 512], N=[np.int64(3), np.int64(4)], eps=[1e-5, 1], offset=[-1, 2], causal=[True, False])
    assert columns == {"M": [256, 512], "N": [3, 4], "eps": [1e-5, 1.0], "offset": [-1, 2], "causal": [True, False]}
    assert [type(column[1]) for column in columns.values()] == [int, int, float, int, bool]


def test_a_later_value_of_another_kind_is_a_word_and_a_later_number_keeps_its_value() -> None:
    [column] = argument_columns([{"N": 3}])
    assert (column.value(4), column.value("auto"), column.value(None)) == (4, "auto", "None")
    assert (column.value(1.5), column.value(2.0), column.value(math.nan)) == (1.5, 2, "nan")
    [column] = argument_columns([{"causal": True}])
    assert (column.value(False), column.value(2)) == (False, 2)


def test_the_first_dtype_is_that_of_the_case_and_others_are_words() -> None:
    columns = cells(dtype=[torch.float16, torch.bfloat16], out=["fp32", "fp16"], kind=["dtype", "dtype"])
    assert columns["dtype"] == ["float16", "bfloat16"] and columns["out"] == ["fp32", "fp16"]


def test_a_name_that_kbench_uses_gets_an_underscore() -> None:
    assert list(cells(provider=[1], mode=["a"], ms=[2], N=[3])) == ["provider_", "mode_", "ms_", "N"]


def test_objects_become_words_that_no_reader_takes_for_something_else() -> None:
    assert list(words_of([torch.relu, None, (8, 128), "a; b", "=1+1", "", "12", True, {"M": 8, "N": "x"}])) == [
        "relu", "None", "8-128", "a b", "1+1", "empty", "'12'", "'True'", "M:8-N:x"
    ]  # fmt: skip


def test_different_objects_with_the_same_text_get_different_words() -> None:
    class Named:
        def __str__(self) -> str:
            return "layer"

    one, other = Named(), Named()
    assert list(words_of([one, other, one])) == ["layer", "layer-2"]
    assert len(word("x" * 500, {})) <= 60


def test_the_tensors_of_a_closure_are_also_in_objects_methods_and_modules() -> None:
    class Layer:
        def __init__(self) -> None:
            self.x, self.own_module, self.library = torch.ones(3), torch.nn.BatchNorm1d(4), pytest

        def __call__(self) -> torch.Tensor:
            return self.x.clone()

        def method(self, *, more: torch.Tensor = torch.ones(5)) -> torch.Tensor:  # noqa: B008
            return self.x + more

    layer = Layer()
    of_layer = {id(x) for x in (layer.x, *layer.own_module.parameters(), *layer.own_module.buffers())}
    assert len(of_layer) == 6
    for closure in (layer, lambda: layer(), layer.__call__, functools.partial(Layer.__call__, layer)):
        assert {id(x) for x in tensors_of(closure)[0]} == of_layer
    assert {len(x) for x in tensors_of(layer.method)[0] if x.shape} == {3, 4, 5}
    assert tensors_of(layer.x.sum)[0] == [layer.x]


WEIGHT = torch.ones(8, 8)


def linear(x: torch.Tensor) -> torch.Tensor:
    return x @ WEIGHT


def doubt_of(closure: Callable[[], object], count: int) -> int | None:
    return doubted_bytes(count, *tensor_bytes(closure, closure()))


def test_counted_bytes_are_doubted_if_they_differ_by_two_from_those_of_the_tensors() -> None:
    x, y, module, inputs = (
        torch.ones(8, 8),
        torch.zeros(8, 8),
        torch.nn.Linear(8, 8, bias=False),
        {"x": torch.ones(8, 8)},
    )

    class Layer:
        def __init__(self) -> None:
            self.weight = torch.ones(8, 8)

        def __call__(self) -> torch.Tensor:
            return x @ self.weight

    honest: list[tuple[Callable[[], object], int]] = [  # a tensor has 256 bytes
        (lambda: torch.exp(x), 2 * 256),
        (lambda: torch.add(x, y), 3 * 256),
        (lambda: torch.exp(x, out=y), 2 * 256),
        (lambda: x.add_(1), 2 * 256),
        (lambda: x.add_(1) is None or None, 2 * 256),  # in place, and returns nothing
        (lambda: linear(x), 3 * 256),
        (lambda: module(x.detach()), 3 * 256),
        (Layer(), 3 * 256),
        (lambda: torch.exp(inputs["x"]), 2 * 256),
        (lambda: torch.add(*x.chunk(2)), 3 * 128),
    ]
    for closure, count in honest:
        assert doubt_of(closure, count) is None
        assert doubt_of(closure, count // 4) and doubt_of(closure, count * 4)
    assert doubt_of(lambda: torch.exp(x), 256) == doubt_of(lambda: torch.exp(x), 1024) == 512
    assert doubt_of(lambda: torch.exp(x), 300) is doubt_of(lambda: torch.exp(x), 1000) is None


def test_bytes_are_not_doubted_if_a_call_may_use_a_part_of_a_tensor_or_tensors_that_nobody_sees() -> None:
    table, indices, x = torch.ones(1000, 8), torch.tensor([3, 5]), torch.ones(8, 8)
    y = linear(x.requires_grad_())
    path, compiled = Path(), torch.compile(linear, backend="eager")
    assert doubt_of(lambda: table[indices], 128) is None
    assert doubt_of(lambda: torch.ones(8, 8), 512) is None
    assert doubt_of(lambda: y.backward(x, retain_graph=True), 10_000) is None
    assert doubt_of(lambda: linear(x).sum().backward(), 10_000) is None
    assert doubt_of(lambda: (path, torch.exp(table))[1], 1_000_000) is None  # an object of a library
    assert doubt_of(lambda: compiled(x), 10_000) is None


@pytest.mark.parametrize(
    ("label", "work"),
    [
        ("Bandwidth (GBps)", (2_512_345, None)),
        ("Effective bandwidth (MB/s)", (2_512, None)),
        ("GiB/s", (2_697_610, None)),
        ("TFLOPS", (0, 2_512_345_000)),
        ("TFLOP/s (bf16)", (0, 2_512_345_000)),
        ("Bandwidth in TFLOPS scripts (GB/s)", (2_512_345, None)),
        ("Share of 900 GB/s [Tbps]", (2_512_345_000, None)),
        ("Bandwidth utilization (%)", (0, None)),
        ("Tokens at 3 TB/s (tokens/s)", (0, None)),
        ("TFLOPS/W", (0, None)),
        ("Table look-ups (Memb/s)", (0, None)),
        ("Time at 3 TB/s (us)", (0, None)),
        ("speed", (0, None)),
    ],
)
def test_a_label_says_what_a_rate_counts(label: str, work: tuple[int, int | None]) -> None:
    assert counted_work(2.512345, 1.0, label) == work
    assert counted_work(2.512345, 1.0, label, "" if label == "speed" else "bandwidth-TFLOPS") == work


def test_the_key_of_a_dict_or_the_name_of_the_plot_may_name_the_unit() -> None:
    assert counted_work({"ms": 1.0, "GB/s": 123.456789}, 1.0, "speed") == (123456789, None)
    assert counted_work((123.456789, 1.0, 2.0), 1.0, "", "copy-GB/s") == (123456789, None)


@pytest.mark.parametrize("returned", [None, math.nan, (), 0.0, -1.0, 1000 * 0.3456789, 0.3456789, 17.0])
def test_times_and_rates_that_are_rounded_much_count_nothing(returned: object) -> None:
    assert counted_work(returned, 0.3456789, "GB/s") == (0, None)


def test_a_rate_that_is_round_by_chance_counts_if_its_quantiles_are_not_round() -> None:
    assert counted_work((0.16, 0.1512345, 0.1712345), 0.0192, "GB/s") == (3072, None)
    assert counted_work((0.16, 0.15, 0.17), 0.0192, "GB/s") == (0, None)


@pytest.mark.parametrize("module", ["torch.utils.benchmark.utils.timer", "torch._inductor.runtime.benchmarking"])
def test_the_timers_of_torch_have_the_names_of_the_table(module: str) -> None:
    assert all(callable(attrgetter(name)(importlib.import_module(module))) for name in TIMERS[module])


def test_timers_that_this_version_of_a_package_lacks_are_left_out_and_the_others_are_replaced() -> None:
    def timer(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):  # type: ignore[no-untyped-def]
        return -1.0

    testing, calls = ModuleType("triton.testing"), list[BenchCall]()
    testing.do_bench_proton = testing.do_bench_cudagraph_proton = timer  # type: ignore[attr-defined]

    def measure(call: BenchCall) -> Timing:
        calls.append(call)
        return Timing(2.0, [1.0, 2.0, 4.0])

    replace_timers(testing, measure)
    assert testing.do_bench_proton(print, 10) == testing.do_bench_cudagraph_proton(print, quantiles=[0.5]) == 2.0
    assert testing.do_bench_proton(print, return_mode="max") == 4.0
    assert [(call.fn, call.rep_ms) for call in calls[:2]] == [(print, 10), (print, 20)]
    assert {call.method for call in calls} == {"kernels"}, "both flush the cache before each call"
    assert not hasattr(testing, "do_bench")


def test_a_number_that_is_the_time_in_another_unit_or_a_rate_is_no_fraction_of_it() -> None:
    counts = [10, 1000]
    assert divided_by(0.25, 2.5, counts) == divided_by(250.0, 2.5, counts) == divided_by(249.9, 2.5, counts) == 10
    assert divided_by({"us": 250.0, "GB/s": 3.0}, 2.5, counts) == 10
    for reported in (2.5, 2500.0, 0.0025, 0.5, -0.25, {"GB/s": 0.25}):
        assert divided_by(reported, 2.5, counts) == 1, reported
    assert divided_by(0.25, 2.5, counts, "GB/s") == 1
