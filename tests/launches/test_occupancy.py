"""Which resource of a multiprocessor limits a kernel. The numbers are those of NVIDIA's occupancy calculator for an H200."""

from __future__ import annotations

import pytest

from kbench.launches.launched_call import DeviceLimits, Kernel, KernelLaunch, launch_occupancy

H200 = DeviceLimits(132, 2048, 65536, 233472, 32, 1024)


def launch(threads: int, registers: int = 32, shared: int = 0, blocks: int | None = 1, grid: int = 132) -> KernelLaunch:
    return KernelLaunch(Kernel("k", "k", registers, 0, 0, "", ""), (grid, 1, 1), (threads, 1, 1), shared, blocks)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "share", "limits"),
    [
        (128, 32, 0, 16, 1.0, ("registers", "threads")),
        (256, 64, 0, 4, 0.5, ("registers",)),
        (1024, 40, 0, 1, 0.5, ("registers",)),
        (128, 32, 100_000, 2, 0.125, ("shared memory",)),
        (32, 16, 0, 32, 0.5, ("blocks",)),
        (1024, 16, 0, 2, 1.0, ("threads",)),
    ],
)
def test_the_resource_that_allows_no_more_blocks_is_named(
    threads: int, registers: int, shared: int, blocks: int, share: float, limits: tuple[str, ...]
) -> None:
    occupancy = launch_occupancy(launch(threads, registers, shared, blocks), H200)
    assert occupancy and (occupancy.blocks, occupancy.share, occupancy.limits) == (blocks, share, limits)


def test_what_kbench_does_not_know_of_a_device_is_not_guessed() -> None:
    occupancy = launch_occupancy(launch(128, blocks=7), H200)
    assert occupancy and occupancy.limits == (), "the driver allows fewer blocks than the resources that kbench counts"
    assert launch_occupancy(launch(128, blocks=None), H200) is None
    assert launch_occupancy(launch(128, blocks=0), H200) is None


def test_a_grid_that_does_not_fill_the_device_is_less_than_a_wave() -> None:
    assert launch_occupancy(launch(128, blocks=16, grid=66), H200).waves == 66 / (16 * 132)  # type: ignore[union-attr]
