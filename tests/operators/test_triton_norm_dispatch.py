"""The dispatch of the norms in Triton: every matrix gets launches that cover it, on every kind of device."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.contract.provider import Unsupported
from kbench.kernels.norms.dispatch.backward import backward_plan
from kbench.kernels.norms.dispatch.forward import forward_plan
from kbench.kernels.norms.dispatch.launches import LARGE_BYTES, Launches, Processors, Step
from kbench.kernels.norms.dispatch.once import REGIMES
from kbench.kernels.norms.dispatch.shared import Sharing, shared_rows_plan
from kbench.kernels.norms.dispatch.twice import WARPS_OF_TWO_INPUTS

H200 = Processors(132, 32, 227 * 1024, True)
DEVICES = [H200, Processors(108, 32, 163 * 1024, False), Processors(304, 64, 0, False), Processors(4, 32, 0, False)]
DEVICES.append(Processors(8, 32, 227 * 1024, True))  # a slice of an H200
DEVICES.append(Processors(170, 32, 99 * 1024, True))  # a workstation card, compute capability 12.0
ROWS = st.integers(1, 5_000_000)
COLUMNS = st.integers(1, 2**18) | st.sampled_from([2**n + more for n in range(1, 18) for more in (-1, 0, 1)])


def held(step: Step) -> int:
    """Columns that a program of a step holds."""
    return int(step.arguments["BLOCK"] * step.arguments.get("PIECES", 1))


def programs_at_once(step: Step, device: Processors) -> int:
    """Programs of a step that a multiprocessor with 65536 registers holds for certain: a thread has up to 255 of them, or as
    many as the step allows."""
    threads = step.options["num_warps"] * device.warp_size
    return max(1, 2**16 // (threads * 8 * math.ceil(step.options.get("maxnreg", 255) / 8)))


def compiles(plan: Launches) -> None:
    """Blocks are powers of two, and so are warps; a program has at most 1024 threads."""
    for step in plan.steps:
        numbers = step.arguments
        for name in ("BLOCK", "ROWS", "WIDTH", "STEP", "SLICES"):
            assert numbers.get(name, 1).bit_count() == 1, (step, name)
        assert step.options["num_warps"] in (1, 2, 4, 8, 16, 32), step
        assert 0 < step.programs < 2**31, step


@settings(max_examples=300, deadline=None)
@given(ROWS, COLUMNS, st.sampled_from([2, 4]), st.booleans(), st.sampled_from(DEVICES), st.booleans(), st.booleans())
def test_forward_covers_every_matrix(
    M: int, N: int, itemsize: int, pivot: bool, device: Processors, anywhere: bool, wide: bool
) -> None:
    plan = forward_plan(M, N, itemsize, pivot, device, anywhere, wide=wide and itemsize == 2)
    N += 16 // itemsize - 1 if plan.window else 0  # lanes, if a row begins in the last one of a vector
    compiles(plan)
    [step] = plan.steps
    if step.kernel.startswith("forward_kernels.twice"):
        assert step.programs == M and held(step) >= (N if "PIECES" in step.arguments else 1)
    elif step.kernel == "forward_teams.teams_in_turn":
        assert step.programs % plan.slices == 0 and step.programs <= device.multiprocessors * programs_at_once(
            step, device
        )
        assert step.programs <= M * plan.slices and step.arguments["WIDTH"] >= plan.slices
        assert held(step) == step.arguments["span"] and plan.slices * step.arguments["span"] >= N
    elif plan.teams:
        assert step.programs == M * plan.slices and step.arguments["WIDTH"] >= plan.slices > 1
        assert plan.slices <= min(128, device.multiprocessors)  # all must be on the device at once
        assert held(step) >= step.arguments["span"] and plan.slices * step.arguments["span"] >= N
    else:
        assert held(step) >= N and step.programs * step.arguments["ROWS"] >= M
    assert 0 <= step.arguments.get("EARLY", 0) <= step.arguments.get("PIECES", 1)
    if step.arguments.get("FULL"):
        assert N % held(step) == 0
        assert M % step.arguments.get("ROWS", 1) == 0 or step.kernel.startswith("forward_wide_weights")


@settings(max_examples=300, deadline=None)
@given(
    ROWS,
    COLUMNS,
    st.sampled_from([2, 4]),
    st.integers(2, 3),
    st.integers(1, 2),
    st.sampled_from(DEVICES),
    st.booleans(),
    st.sampled_from([1, 2, 4, 8]),
)
def test_backward_covers_every_matrix(
    M: int, N: int, itemsize: int, inputs: int, sums: int, device: Processors, anywhere: bool, address: int
) -> None:
    """`address` elements divide the distance of the first row from a multiple of 16 bytes."""
    vector = math.gcd(16 // itemsize, N, address)
    plan = backward_plan(M, N, itemsize, vector, inputs, sums, device, anywhere)
    compiles(plan)
    first, last = plan.steps[0], plan.steps[-1]
    numbers = first.arguments
    assert (last.kernel == "backward_kernels.add_up") == (plan.parts > 1)
    if plan.parts > 1:
        assert last.programs * last.arguments["BLOCK"] >= N * sums
    if first.kernel == "backward_kernels.resident":
        assert held(first) >= N and numbers["tiles"] * numbers["ROWS"] >= M and plan.parts == first.programs
    elif first.kernel == "window_kernels.resident_anywhere":
        assert held(first) >= N + 16 // itemsize - 1 and plan.parts == first.programs and plan.window
        assert plan.parts % (16 // itemsize) == 0  # all rows of a program begin in the same lane
        assert (numbers["STAGES"] - 1) * held(first) * itemsize * inputs < device.shared_bytes
    elif first.kernel == "backward_kernels.rows_and_columns":
        assert (
            held(first) >= N and numbers["strips"] * numbers["WIDTH"] >= N and first.programs == numbers["strips"] + M
        )
    elif first.kernel == "column_kernels.mean_slices":
        assert numbers["span"] * plan.slices >= N and first.programs == M * plan.slices
        strips = plan.steps[1].arguments
        assert strips["strips"] * strips["WIDTH"] >= N and strips["chunk"] * plan.parts >= M
        assert strips["SLICES"] >= plan.slices
    else:
        assert first.kernel == "shared_rows.shared_rows" and plan.teams
        assert vector * itemsize >= 4  # it loads words of 4 bytes
        assert numbers["span"] * plan.slices >= N and held(first) >= numbers["span"] and numbers["WIDTH"] >= plan.slices
        assert first.programs == plan.slices * plan.parts <= device.multiprocessors * programs_at_once(first, device)
        assert first.options.get("launch_cooperative_grid", False) == bool(device.shared_bytes)  # on NVIDIA


@pytest.mark.parametrize(
    "M, N, launches",
    [(64, 4096, 1), (256, 1024, 1), (1, 16384, 1), (16384, 4096, 2), (4096, 16384, 2), (4096, 32768, 2)],
)
def test_few_rows_take_one_launch(M: int, N: int, launches: int) -> None:
    assert len(backward_plan(M, N, 2, 8, 2, 1, H200).steps) == launches


def test_rows_on_the_way_fit_into_the_shared_memory_of_smaller_cards() -> None:
    """Three float32 matrices, as add_rmsnorm has, whose rows begin anywhere."""
    for device, kernel in ((H200, "window_kernels.resident_anywhere"), (DEVICES[-1], "backward_kernels.resident")):
        assert backward_plan(16384, 6001, 4, 1, 3, 1, device, True).steps[0].kernel == kernel


@pytest.mark.parametrize("N", [1024, 2048, 4096, 8192, 16384])
@pytest.mark.parametrize("pivot, inputs", [(False, 1), (False, 2), (True, 1)])
def test_weights_in_float32_are_loaded_before_they_are_needed(N: int, pivot: bool, inputs: int) -> None:
    """Two programs of 512 threads, or as many threads of shorter ones, fit on a multiprocessor."""
    [step] = forward_plan(2**26 // N, N, 2, pivot, H200, inputs=inputs, wide=True).steps
    if step.kernel == "forward_wide_weights.beside_wide_weights":
        return  # it always does
    assert step.arguments["EARLY"] > 0
    if pivot or N > 8192:
        assert step.options["maxnreg"] <= 64


@pytest.mark.parametrize(("itemsize", "row_bytes"), WARPS_OF_TWO_INPUTS)
def test_large_matrices_of_two_inputs_are_read_twice(itemsize: int, row_bytes: int) -> None:
    """Not on another device, where this was not measured, nor beside weights in float32, nor with one input."""
    N, M = row_bytes // itemsize, LARGE_BYTES // row_bytes
    [step] = forward_plan(M, N, itemsize, False, H200, inputs=2).steps
    compiles(Launches((step,)))
    assert step.kernel == "forward_kernels.twice" and step.programs == M
    assert N % step.arguments["BLOCK"] == 0 and step.arguments["FULL"]
    assert step.arguments["BLOCK"] * itemsize == 16 * 32 * step.options["num_warps"]
    others = [
        forward_plan(M - 1, N, itemsize, False, H200, inputs=2),
        forward_plan(M, N - 16 // itemsize, itemsize, False, H200, inputs=2),
        forward_plan(M, N, itemsize, False, H200, inputs=1),
        forward_plan(M, N, itemsize, False, H200._replace(chained=False), inputs=2),
        forward_plan(M, N, itemsize, False, H200, inputs=2, wide=True),
    ]
    assert all(plan.steps[0].kernel == "forward_kernels.registers" for plan in others)


@pytest.mark.parametrize("kind", REGIMES)
def test_large_matrices_are_read_with_a_hint_for_the_cache(kind: tuple[int, bool, int]) -> None:
    """All rows of a regime that consist of 16 bytes. Not in small matrices, nor beside weights in float32, nor on another
    device: this was not measured there."""
    inputs, pivot, itemsize = kind
    for regime in REGIMES[kind]:
        for row_bytes in (int(regime.least * 1024), int((regime.least + regime.most) * 512), int(regime.most * 1024)):
            N, M = row_bytes // itemsize, LARGE_BYTES // row_bytes + 1
            plan = forward_plan(M, N, itemsize, pivot, H200, inputs=inputs)
            compiles(plan)
            [step] = plan.steps
            assert step.arguments["POLICY"] == "evict_last" and step.programs == M and held(step) >= N
            others = [
                forward_plan(M // 2, N, itemsize, pivot, H200, inputs=inputs),
                forward_plan(M, N - 1, itemsize, pivot, H200, inputs=inputs),
                forward_plan(M, N, itemsize, pivot, H200._replace(chained=False), inputs=inputs),
            ]
            if itemsize == 2:
                others.append(forward_plan(M, N, itemsize, pivot, H200, inputs=inputs, wide=True))
            assert not any("POLICY" in other.steps[0].arguments for other in others)


@pytest.mark.parametrize("cache_mib, large_mib", [(50, 120), (60, 120), (126, 252)])
def test_matrices_are_large_from_120_mib_on_or_from_twice_a_larger_cache(cache_mib: int, large_mib: int) -> None:
    device, rows = H200._replace(cache_bytes=cache_mib * 2**20), large_mib * 2**20 // 8192
    found = [forward_plan(M, 4096, 2, False, device).steps[0].arguments for M in (rows - 1, rows)]
    assert ["POLICY" in arguments for arguments in found] == [False, True]


@pytest.mark.parametrize("N, shared_kib, inputs, chosen", [
    (2**18, 227, 2, True),
    (151936, 227, 1, True),
    (2**17, 227, 1, True),
    (2**17, 99, 1, True),
    (2**17, 227, 2, False),  # slices are faster
    (557056, 227, 1, False),  # one team of 68 programs, which leaves half of the multiprocessors idle
    (2**18, 99, 1, True),
    (2**18, 99, 2, False),  # two rows of two matrices on the way take 128 KiB of shared memory
])  # fmt: skip
def test_teams_that_stay_fill_the_device_and_fit_into_its_shared_memory(
    N: int, shared_kib: int, inputs: int, chosen: bool
) -> None:
    device = H200._replace(shared_bytes=shared_kib * 1024)
    [step] = forward_plan(2**27 // N, N, 4, False, device, inputs=inputs).steps
    assert (step.kernel == "forward_teams.teams_in_turn") == chosen
    if chosen:  # without it, teams of two launches at once could wait for each other forever
        assert step.options["launch_cooperative_grid"]


@pytest.mark.parametrize("itemsize, pivot, inputs, lengths", [
    (4, False, 1, [2**17, 2**18]), (4, True, 1, [2**17, 2**18]), (4, False, 2, [2**18]),
    (2, False, 1, [2**18]), (2, True, 1, []), (2, False, 2, [2**17, 2**18]),
])  # fmt: skip
def test_teams_stay_where_they_were_fastest(itemsize: int, pivot: bool, inputs: int, lengths: list[int]) -> None:
    """Of large matrices. Small ones, misaligned rows and other devices were not measured."""

    def stays(N: int, device: Processors = H200, share: int = 1, more: int = 0) -> bool:
        plan = forward_plan(2**27 // N // share, N + more, itemsize, pivot, device, inputs=inputs)
        return plan.steps[0].kernel == "forward_teams.teams_in_turn"

    assert [N for N in (2**16, 2**17, 2**18) if stays(N)] == lengths
    assert not any(stays(N, more=1) or stays(N, share=16) or stays(N, DEVICES[1]) for N in lengths)


@pytest.mark.parametrize("inputs, lengths", [(1, [2**16]), (2, [2**16, 2**17])])
def test_long_rows_in_float32_are_shared_by_slices(inputs: int, lengths: list[int]) -> None:
    """Where teams that stay are not faster. A device with few multiprocessors cannot hold the slices of a row at once."""
    for N in lengths:
        plan = forward_plan(2**25 // N, N, 4, False, H200, inputs=inputs)
        [step] = plan.steps
        compiles(plan)
        assert (step.arguments["POLICY"], step.options["maxnreg"]) == ("evict_last", 64) and held(step) == 8192
        few = H200._replace(multiprocessors=N // 8192 - 1)
        assert "POLICY" not in forward_plan(2**25 // N, N, 4, False, few, inputs=inputs).steps[0].arguments


@pytest.mark.parametrize("N, twice", [(12288, True), (16384, True), (14336, False), (8192, False), (32768, False)])
def test_layernorm_reads_some_long_rows_in_float32_twice(N: int, twice: bool) -> None:
    [step] = forward_plan(2**25 // N + 1, N, 4, True, H200).steps
    assert (step.kernel == "forward_kernels.twice_unrolled") == twice


def test_rows_are_shared_only_by_programs_that_the_device_holds() -> None:
    """Others would wait forever."""
    way = Sharing(piece=1024, pieces=1, warps=8)
    plan = shared_rows_plan(3, 132 * 1024, 4, 1, H200, way)
    assert (plan.slices, plan.steps[0].programs) == (132, 132)
    with pytest.raises(Unsupported, match="needs 133 programs; this device holds 132 at once"):
        shared_rows_plan(3, 133 * 1024, 4, 1, H200, way)
    small = Processors(8, 32, 227 * 1024, True)  # a slice of a device
    assert [backward_plan(4096, N, 4, 4, 2, 1, small).teams for N in (32768, 32772)] == [True, False]
