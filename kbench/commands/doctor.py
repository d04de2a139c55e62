"""`kbench doctor`: what this machine has, what is missing, and what distorts timings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.commands.list_providers import read_catalog
from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.nvml import Card
    from kbench.protocol import Catalog


def doctor() -> None:
    """Show this machine, what is missing, and what distorts timings.

    For everything that is missing, the command names the providers and features that need it. For everything that distorts
    timings, it says what the effect is, and which command removes the cause.
    """
    catalog = read_catalog(())
    terminal.print_table(("found", ""), _machine_rows(catalog))
    print()
    _print_missing(catalog)
    print()
    _print_disturbances(catalog)


def _machine_rows(catalog: Catalog) -> list[list[str]]:
    machine = catalog.machine
    rows = [["device", f"{machine.device} ({machine.device_type})"], ["driver", machine.driver or "none found"]]
    rows.append(["telemetry", machine.telemetry or "none"])
    if machine.limits:
        rows.append(["limits", ", ".join(f"{k} {v:g}" for k, v in machine.limits.items() if v is not None)])
    if machine.peak_gbps:
        rows.append(["theoretical bandwidth", f"{machine.peak_gbps:.0f} GB/s"])
    if machine.cache_bytes:
        rows.append(["last-level cache", f"{machine.cache_bytes / 2**20:.0f} MiB"])
    return [
        *rows,
        ["CUDA or HIP of torch", machine.cuda or machine.hip or "none"],
        ["nvcc", machine.nvcc or "not on PATH"],
        ["Triton interpreter", "on: kernels are checked, not timed" if machine.triton_interpreter else "off"],
        ["Python", f"{machine.python} on {machine.platform}"],
        *([name, version] for name, version in machine.packages.items()),
    ]


def _print_missing(catalog: Catalog) -> None:
    machine = catalog.machine
    missing: dict[str, list[str]] = {}
    for name, described in catalog.operators.items():
        for provider, info in described.providers.items():
            if info.unavailable:
                missing.setdefault(info.unavailable, []).append(f"{name}/{provider}")
    if not machine.telemetry and machine.device_type == "cuda":
        missing["no answer from NVML (nvidia-ml-py)"] = ["clock, power and throttle readings"]
    print("unavailable here:" if missing else "nothing is missing")
    for reason, enables in missing.items():
        terminal.print_paragraph(f"{reason}: {', '.join(enables)}", indent=2)


def _print_disturbances(catalog: Catalog) -> None:
    """Print what distorts timings on this machine and on its current device. The worker that made the catalog has ended."""
    from kbench.disturbances import device_disturbances, host_disturbances, profiler_disturbances

    disturbances = [*profiler_disturbances(), *host_disturbances()]
    if card := _card(catalog):
        disturbances += device_disturbances(card)
    print("distorts timings here:" if disturbances else "nothing was found that distorts timings")
    for disturbance in disturbances:
        terminal.print_paragraph(f"{disturbance.what} {disturbance.why}", indent=2)
        print(f"    {disturbance.command}")


def _card(catalog: Catalog) -> Card | None:
    """The current device; None if it is no NVIDIA device, or if there is no NVML."""
    from kbench.nvml import Card, CardError

    try:
        return Card(catalog.device.uuid) if catalog.device.uuid else None
    except CardError:
        return None
