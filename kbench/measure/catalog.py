"""What exists on this machine: operators, providers, parameters, availability with reasons, and the environment."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kbench import registry
from kbench.kernels.cuda_extension import nvcc_release
from kbench.measure.correctness.common_edges import edge_names
from kbench.measure.machine.device import Device, devices
from kbench.measure.machine.telemetry import Telemetry
from kbench.registry import Announce, Operator, PluginError, Provider
from kbench.results.row import digest
from kbench.text import redact
from kbench.text.exception_text import describe as describe_error
from kbench.text.printable import REASON_LIMIT, printable
from kbench.version import __version__

PACKAGES = ("kbench", "torch", "triton", "numpy", "pandas", "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl")

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "PYTORCH_ALLOC", "PYTORCH_CUDA", "PYTORCH_HIP", "PYTORCH_JIT", "PYTORCH_MIOPEN", "PYTORCH_NO_CUDA", "PYTORCH_TUNABLEOP",
    "TORCHDYNAMO", "TORCHINDUCTOR", "TORCH_ALLOW", "TORCH_BLAS", "TORCH_COMPILE", "TORCH_CUDA", "TORCH_CUDNN", "TORCH_DISABLE",
    "TORCH_HIPBLASLT", "TORCH_LINALG", "TORCH_NCCL", "TORCH_ROCM", "TORCH_SYMM_MEM",
    "TRITON_ALLOW", "TRITON_ALWAYS_COMPILE", "TRITON_CACHE_AUTOTUNING", "TRITON_DEBUG", "TRITON_DEFAULT", "TRITON_DISABLE",
    "TRITON_ENABLE", "TRITON_F32", "TRITON_HIP", "TRITON_INTERPRET", "TRITON_KERNEL", "TRITON_OVERRIDE", "TRITON_PTXAS",
    "TRITON_USE",
)  # fmt: skip
"""Beginnings of the names of environment variables that change what is measured. No other variable is recorded."""


def catalog(
    device: Device, telemetry: Telemetry, failures: list[PluginError], announce: Announce = lambda *names: None
) -> dict[str, Any]:
    """Everything the parent, which imports neither torch nor triton, has to know."""
    operators = {}
    for name in registry.names():
        operator = registry.operator(name)
        found = _guarded(_plugin(operator), f"operator {name}", failures, partial(describe, operator))
        if found is not None:
            operators[name] = found | {"providers": _providers(operator, device, failures, announce)}
    announce("")
    return {
        "device": {"type": device.type, "name": device.name, "index": device.index, "uuid": device.uuid},
        "devices": devices(device.type),
        "operators": operators,
        "plugin_errors": [{"plugin": f.plugin, "where": f.where, "message": f.message} for f in failures],
        "environment": environment(device, telemetry),
    }


def describe(operator: Operator) -> dict[str, Any]:
    return {
        "axes": list(operator.axes),
        "choices": {name: list(values) for name, values in operator.choices.items()},
        "dtypes": list(operator.dtypes),
        "edges": edge_names(operator),
    }


def _providers(
    operator: Operator, device: Device, failures: list[PluginError], announce: Announce
) -> dict[str, dict[str, Any]]:
    """By their names. One that cannot be described is left out, and a failure of its plug-in."""
    described = {}
    for provider in operator.providers.values():
        if provider.plugin and provider.available:
            announce(provider.plugin, operator.name, provider.name)
        where = f"provider {provider.name}"
        found = _guarded(provider.plugin, where, failures, partial(_provider, provider, device))
        if found is not None:
            described[provider.name] = found
    return described


def _provider(provider: Provider, device: Device) -> dict[str, Any]:
    return {
        "label": provider.label,
        "parameters": dict(provider.parameters),
        "unavailable": provider.unavailable(device.type),
        "plugin": provider.plugin,
        "source_hash": provider.source_hash,
        "place": provider.place,
        "interpreted": "triton" in provider.requires and os.environ.get("TRITON_INTERPRET") == "1",
    }


def _guarded(
    plugin: str | None, where: str, failures: list[PluginError], make: Callable[[], dict[str, Any]]
) -> dict[str, Any] | None:
    """What is made, as JSON can hold it. What a plug-in has registered may be anything: then it is a failure, and None."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(make(), default=str))
        return found
    except Exception as error:  # noqa: BLE001  whatever a plug-in has registered is its own failure
        failures.append(PluginError(plugin or "kbench", where, printable(describe_error(error), REASON_LIMIT)))
        return None


def _plugin(operator: Operator) -> str | None:
    """The plug-in that an operator comes from, as its providers say."""
    return next((provider.plugin for provider in operator.providers.values()), None)


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
        "threads": torch.get_num_threads(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "variables": redact.variables({k: v for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)}),
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
