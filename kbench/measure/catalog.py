"""Makes the catalog: what exists on this machine, and whether it can run."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from kbench.contract import registry
from kbench.contract.operator import Operator
from kbench.contract.provider import code_hash
from kbench.kernels.cuda_extension import nvcc_release
from kbench.measure.correctness.common_edges import edge_names
from kbench.measure.machine.device import Device, devices
from kbench.measure.machine.telemetry import Telemetry
from kbench.plugins import Running, unwatched
from kbench.protocol import Catalog, Fault, OperatorInfo, ProviderInfo
from kbench.results.case import INTEGER_LIMIT, MODES, Case, Value
from kbench.results.environment import Machine
from kbench.results.stamps import digest
from kbench.text.exception_text import message
from kbench.version import __version__

PACKAGES = (
    "kbench", "torch", "triton", "numpy", "pandas", "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl",
    "flash-attn", "flash-attn-3", "flash-attn-4", "flashinfer-python", "cut-cross-entropy",
)  # fmt: skip

RECORDED_VARIABLES = (
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

SECRET_NAME = re.compile(
    r"TOKEN|PASS|SECRET|KEY|CREDENTIAL|AUTH|PRIVATE|COOKIE|SIGNATURE|(^|_)(PW|PWD|PAT|DSN)(_|$)", re.IGNORECASE
)
"""Names of environment variables that may hold a secret. People share environment files, so the value is not recorded."""


def make_catalog(
    device: Device, telemetry: Telemetry, failures: Sequence[Fault], running: Running | None = unwatched
) -> Catalog:
    """The catalog of this machine. `failures` are those of plug-ins. Without `running`, it has no providers."""
    operators = {}
    for name in registry.operator_names():
        operator = registry.operator(name)
        providers = _providers(operator, device, running) if running else {}
        operators[name] = replace(describe_operator(operator), providers=providers)
    return Catalog(
        device=device.info,
        devices=tuple(devices(device.type)),
        operators=operators,
        plugin_errors=tuple(failures),
        machine=describe_machine(device, telemetry),
        memory_bytes=device.memory_bytes,
    )


def describe_operator(operator: Operator) -> OperatorInfo:
    """The operator without its providers."""
    return OperatorInfo(
        axes=tuple(operator.axes),
        choices={name: tuple(words) for name, words in operator.words.items()},
        dtypes=tuple(operator.dtypes),
        edges={mode: tuple(edge_names(operator, mode)) for mode in MODES},
        scalars=dict(operator.scalars),
        inputs={name: tensor.layout for name, tensor in operator.inputs.items()},
        outputs={name: tensor.layout for name, tensor in operator.outputs.items()},
        gradients=tuple(operator.gradients),
        judged=len(operator.judged) == len(operator.outputs),
        rows=operator.rows is not None,
        model_axes=tuple({axis: str(size) for axis, size in shape.items()} for shape in operator.model_shapes),
        source_hash=code_hash([operator.reference]),
    )


def does_not_fit(operator: Operator, case: Case, error: BaseException) -> str:
    """The reason of a case for which memory has run out before any provider ran."""
    needed_gb = describe_operator(operator).needed_bytes(case) / 1e9
    problem = f"the case's inputs and reference do not fit into memory: {message(error)}"
    return f"{problem}; kbench needs about {needed_gb:,.1f} GB of free memory for this case, or choose a smaller one"


def _providers(operator: Operator, device: Device, running: Running) -> dict[str, ProviderInfo]:
    """The operator's providers by name."""
    described = {}
    for provider in operator.providers.values():
        watching = running if provider.plugin and provider.available else unwatched
        with watching(provider.plugin or "", "ask", f"provider {provider.name} of plug-in {provider.plugin}"):
            described[provider.name] = ProviderInfo(
                parameters={name: _default(value) for name, value in provider.parameters.items()},
                unavailable=provider.unavailable(device.type),
                plugin=provider.plugin,
                source_hash=provider.source_hash,
                place=provider.place,
                interpreted="triton" in provider.requires and os.environ.get("TRITON_INTERPRET") == "1",
            )
    return described


def _default(value: Any) -> Value:
    """A parameter's default as a config could write it: of any other object, its text."""
    if value is None or isinstance(value, (bool, float, str)):
        return value
    return int(value) if isinstance(value, int) and abs(value) < INTEGER_LIMIT else str(value)


def describe_machine(device: Device, telemetry: Telemetry) -> Machine:
    """The machine as this process sees it."""
    processes = telemetry.others()
    return Machine(
        device=device.name,
        device_type=device.type,
        cache_bytes=device.cache_bytes,
        driver=telemetry.driver,
        telemetry=telemetry.source,
        limits=telemetry.limits,
        peak_gbps=telemetry.peak_gbps,
        other_processes=None if processes is None else len(processes),
        cuda=torch.version.cuda,
        hip=torch.version.hip,
        nvcc=nvcc_release(),
        triton_interpreter=os.environ.get("TRITON_INTERPRET") == "1",
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        cpu_count=os.cpu_count(),
        threads=torch.get_num_threads(),
        packages={name: version for name in PACKAGES if (version := _version(name))},
        variables={
            name: "(hidden)" if SECRET_NAME.search(name) else value
            for name, value in sorted(os.environ.items())
            if name.startswith(RECORDED_VARIABLES)
        },
        **(_describe_accelerator(device) if device.accelerated else {}),
    )


def _describe_accelerator(device: Device) -> dict[str, Any]:
    properties = device.properties
    sizes = ("total_memory", "multi_processor_count", "major", "minor", *(["gcnArchName"] if torch.version.hip else []))
    properties_by_name = {name: getattr(properties, name, None) for name in sizes}
    device_id = digest(str(getattr(properties, "uuid", "")))
    return properties_by_name | {"device_id": device_id, "device_count": torch.accelerator.device_count()}


def _version(package: str) -> str | None:
    if package == "kbench":
        return __version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return getattr(sys.modules.get(package), "__version__", None)
