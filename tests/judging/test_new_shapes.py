"""Random shapes are of all kinds, within the memory of the device, and the same for the same seed."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from kbench.contract.tensor import Layout
from kbench.judging.checks import check_cases
from kbench.judging.random_shapes import draw_beyond_int32, draw_shapes
from kbench.protocol import Configuration, Measure, OperatorInfo, Task
from kbench.results.case import Case
from kbench.results.row import Row

MATRIX = Layout(("M", "N"))
INFO = OperatorInfo(("M", "N"), {}, ("float32",), inputs={"x": MATRIX}, outputs={"y": MATRIX}, rows=True)
CASES = [Case("double", {"M": 8, "N": 8}, "float32"), Case("double", {"M": 8, "N": 8}, "float16")]


def test_they_have_tiny_odd_prime_and_equal_sizes_and_fit_into_the_memory_of_a_call() -> None:
    shapes = draw_shapes(INFO, CASES, 60, seed=1, accelerated=False)
    sizes = {size for case in shapes for size in case.axes.values() if isinstance(size, int)}
    assert len(shapes) == len(set(shapes)) == 60
    assert draw_shapes(INFO, CASES, 60, seed=1, accelerated=False) == shapes
    assert draw_shapes(INFO, CASES, 60, seed=2, accelerated=False) != shapes
    assert min(sizes) < 8 and max(sizes) > 500 and any(size % 2 for size in sizes if size > 8)
    assert any(all(size % divisor for divisor in range(2, size)) for size in sizes if size > 100)
    assert any(case.M == case.N for case in shapes)
    assert max(INFO.tensor_bytes(case) for case in shapes) <= 2**18


def test_sizes_that_the_tensors_refuse_are_not_drawn() -> None:
    halves = replace(INFO, inputs={"x": Layout(("M", "N/2"))})
    assert all(int(case.N) % 2 == 0 for case in draw_shapes(halves, CASES, 20, seed=1, accelerated=False))


def test_one_case_has_more_than_2_to_the_31_elements_where_memory_allows() -> None:
    case = draw_beyond_int32(INFO, CASES, 80 * 2**30, seed=3)
    assert case and case.dtype == "float16"
    assert 2**31 < prod(MATRIX.shape_in(case)) < 2**31 * 1.01
    assert draw_beyond_int32(INFO, CASES, 24 * 2**30, seed=3) is None
    assert draw_beyond_int32(INFO, CASES, None, seed=3) is None


def test_no_more_are_tried_when_a_slow_reference_has_taken_long() -> None:
    tasks = [Task(case, (Configuration("mine", {}),), None, Measure(), 0) for case in CASES * 3]
    seconds: list[float] = []

    def check(task: Task, listener: object) -> list[Row]:
        seconds.append(4.0)
        return []

    checks = check_cases(tasks[:2], check, tasks[2:], reference_s=lambda: sum(seconds))
    assert len(seconds) == 4 and checks.slow == 2 and checks.random_shapes == 2 and not checks.left_out_cases
