"""`kbench doctor`: what this machine has, and what is missing."""

from __future__ import annotations

from kbench.commands.inspect import read_catalog, report_plugins
from kbench.errors import ExitStatus
from kbench.text import terminal


def doctor() -> ExitStatus:
    """Show this machine's device and packages, and what is missing.

    For everything that is missing, the command names the providers and features that need it.
    """
    catalog = read_catalog(())
    machine = catalog.machine
    rows = [["device", f"{machine.device} ({machine.device_type})"], ["driver", machine.driver or "none found"]]
    rows.append(["telemetry", machine.telemetry or "none"])
    if machine.limits:
        rows.append(["limits", ", ".join(f"{k} {v:g}" for k, v in machine.limits.items() if v is not None)])
    if machine.peak_gbps:
        rows.append(["theoretical bandwidth", f"{machine.peak_gbps:.0f} GB/s"])
    if machine.other_processes:
        count = machine.other_processes
        rows.append(
            ["busy", f"{count} other {'process computes' if count == 1 else 'processes compute'} on this device"]
        )
    if machine.cache_bytes:
        rows.append(["last-level cache", f"{machine.cache_bytes / 2**20:.0f} MiB"])
    rows += [
        ["CUDA or HIP of torch", machine.cuda or machine.hip or "none"],
        ["nvcc", machine.nvcc or "not on PATH"],
        ["Triton interpreter", "on: kernels are checked, not timed" if machine.triton_interpreter else "off"],
        ["Python", f"{machine.python} on {machine.platform}"],
        *([name, version] for name, version in machine.packages.items()),
    ]
    terminal.print_table(("found", ""), rows)
    print()
    missing: dict[str, list[str]] = {}
    for name, described in catalog.operators.items():
        for provider, info in described.providers.items():
            if info.unavailable:
                missing.setdefault(info.unavailable, []).append(f"{name}/{provider}")
    if not machine.telemetry and machine.device_type == "cuda":
        missing["no answer from NVML (nvidia-ml-py) or amdsmi"] = ["clock, power and throttle readings"]
    print("unavailable here:" if missing else "nothing is missing")
    for reason, enables in missing.items():
        terminal.console().print(f"  {', '.join(enables)}: {reason}", markup=False)
    return report_plugins(catalog)
