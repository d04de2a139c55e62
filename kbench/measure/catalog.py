"""What exists on this machine: operators, providers, parameters, availability with reasons, and the environment."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

import torch

from kbench import registry
from kbench.measure.device import Device, devices
from kbench.measure.telemetry import Telemetry
from kbench.operators.extension import nvcc_release
from kbench.registry import Operator, PluginError
from kbench.results import digest
from kbench.version import __version__

PACKAGES = ("kbench", "torch", "triton", "numpy", "pandas", "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl")

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "TORCH", "PYTORCH", "TRITON", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
)  # fmt: skip
"""Beginnings of the names of environment variables that change what is measured."""


def catalog(device: Device, telemetry: Telemetry, failures: list[PluginError]) -> dict[str, Any]:
    """Everything the parent, which imports neither torch nor triton, has to know."""
    operators = [registry.operator(name) for name in registry.names()]
    return {
        "device": {"type": device.type, "name": device.name, "index": device.index, "uuid": device.uuid},
        "devices": devices(device.type),
        "operators": {operator.name: describe(operator, device) for operator in operators},
        "plugin_errors": [{"plugin": f.plugin, "where": f.where, "message": f.message} for f in failures],
        "environment": environment(device, telemetry),
    }


def describe(operator: Operator, device: Device) -> dict[str, Any]:
    return {
        "axes": list(operator.axes),
        "choices": {name: list(values) for name, values in operator.choices.items()},
        "dtypes": list(operator.dtypes),
        "edges": list(operator.edges),
        "providers": {
            provider.name: {
                "label": provider.label,
                "parameters": dict(provider.parameters),
                "unavailable": provider.unavailable(device.type),
                "plugin": provider.plugin,
                "source_hash": provider.source_hash,
                "interpreted": "triton" in provider.requires and os.environ.get("TRITON_INTERPRET") == "1",
            }
            for provider in operator.providers.values()
        },
    }


def environment(device: Device, telemetry: Telemetry) -> dict[str, Any]:
    """What a reader needs to believe, repeat or distrust a row. Sizes in bytes, clocks in MHz, power in watts."""
    found: dict[str, Any] = {
        "device": device.name,
        "device_type": device.type,
        "cache_bytes": device.cache_bytes,
        "driver": telemetry.driver,
        "telemetry": telemetry.source,
        "limits": telemetry.limits(),
        "peak_gbps": telemetry.peak_gbps(),
        "other_processes": None if (others := telemetry.others()) is None else len(others),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "nvcc": nvcc_release(),
        "triton_interpreter": os.environ.get("TRITON_INTERPRET") == "1",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_count": os.cpu_count(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)},
    }
    if device.accelerated:
        properties = torch.get_device_module(device.type).get_device_properties(device.torch_device)
        for name in ("total_memory", "multi_processor_count", "major", "minor"):
            found[name] = getattr(properties, name, None)
        if torch.version.hip:
            found["gcnArchName"] = properties.gcnArchName
        found["device_id"] = digest(str(getattr(properties, "uuid", "")))  # tells two devices apart, names neither
        found["device_count"] = torch.accelerator.device_count()
    return found


def _version(package: str) -> str | None:
    if package == "kbench":
        return __version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return getattr(sys.modules.get(package), "__version__", None)
