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
    found = launch_occupancy(launch(threads, registers, shared, blocks), H200)
    assert found and (found.blocks, found.share, found.limits) == (blocks, share, limits)


RECORDED = {
    "DeviceRadixSortHistogramKernel": (32, 4096, 128, 16, "registers threads"),
    "CatArrayBatchedCopy": (15, 0, 128, 16, "threads"),
    "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT": (168, 213_268, 384, 1, "registers shared"),
}
"""Kernels of torch 2.11 and cuBLAS on an H200: registers, shared memory, threads, and how many blocks the driver said fit."""


@pytest.mark.parametrize("name", RECORDED)
def test_the_resources_that_kbench_counts_explain_what_the_driver_said(name: str) -> None:
    registers, shared, threads, blocks, limits = RECORDED[name]
    found = launch_occupancy(launch(threads, registers, shared, blocks), H200)
    assert found and [limit.split()[0] for limit in found.limits] == limits.split()


def test_what_kbench_does_not_know_of_a_device_is_not_guessed() -> None:
    found = launch_occupancy(launch(128, blocks=7), H200)
    assert found and found.limits == (), "the driver allows fewer blocks than the resources that kbench counts"
    assert launch_occupancy(launch(128, blocks=None), H200) is None
    assert launch_occupancy(launch(128, blocks=0), H200) is None


def test_a_grid_that_does_not_fill_the_device_is_less_than_a_wave() -> None:
    assert launch_occupancy(launch(128, blocks=16, grid=66), H200).waves == 66 / (16 * 132)  # type: ignore[union-attr]
