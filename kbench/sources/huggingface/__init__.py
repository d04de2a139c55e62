"""Benchmarks of Hugging Face kernels: classes with methods `setup_...`, `benchmark_...` and `verify_...`.

Format: the page `kernels benchmark` of the documentation of kernels. A class becomes an operator, or several if its workloads
take different tensors. The tensors of its setup are the inputs, `verify_...` is the reference and the baseline, and
`benchmark_...` is the provider `kernel`. Only workers import this package: it runs other people's code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.protocol import SourceSweep
from kbench.results.case import Case, Value
from kbench.sources.fault import SourceFault
from kbench.sources.huggingface import kernel_package
from kbench.sources.huggingface.benchmark_class import OUT, BenchmarkClass, BenchmarkWorkload, NotMeasured, tensors_of
from kbench.sources.problems.calls import OUTPUT_ULPS, REFERENCE, reference_of, standing_for
from kbench.sources.problems.drawn_together import DrawnTogether, draw_on_host
from kbench.sources.problems.exact import allows_float64
from kbench.sources.problems.foreign_code import run_file
from kbench.sources.problems.formats import benchmark_files
from kbench.sources.problems.on_device import on_device
from kbench.sources.problems.own_tolerance import OwnTolerance, use_own_tolerance

_WORKLOAD = "workload"

KERNEL = "kernel"
"""The provider that calls the kernel."""

TOLERANCE = OwnTolerance(1e-2, 1e-5)
"""That of kernels, for a reference that does not run in float64."""


def load(path: Path) -> Sequence[SourceSweep]:
    """Register the operators of all benchmark classes at a path. Raises SourceFault."""
    sweeps = [sweep for file in benchmark_files(path) for sweep in _load(file)]
    if not sweeps:
        what = "defines no class derived from kernels.benchmark.Benchmark with a method benchmark_NAME"
        raise SourceFault(str(path), f"{what}; define one there (an imported class does not count)")
    return sweeps


def _load(file: Path) -> list[SourceSweep]:
    with kernel_package.base_class() as base:
        module = run_file(file)
    own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    found: list[SourceSweep] = []
    left_out: list[NotMeasured] = []
    for benchmark in (BenchmarkClass(each, file) for each in own if issubclass(each, base)):
        forms: dict[Any, list[BenchmarkWorkload]] = {}
        for name in benchmark.workload_names():
            try:
                workload = benchmark.read(name)
                forms.setdefault(workload.form, []).append(workload)
            except NotMeasured as fault:
                left_out.append(fault)
        found += [_sweep(benchmark, each, number) for number, each in enumerate(forms.values())]
    if left_out and not found:
        raise left_out[0]
    for reason in left_out:
        print(f"kbench: {reason}; it is left out", file=sys.stderr)
    return found


def _sweep(benchmark: BenchmarkClass, workloads: Sequence[BenchmarkWorkload], number: int) -> SourceSweep:
    """Register the operator of workloads of one form, and its providers `reference` and `kernel`."""
    first, name = workloads[0], benchmark.name if not number else f"{benchmark.name}-{workloads[0].name}"
    sizes, axes = _axes(workloads)
    left = iter(sizes)
    together = DrawnTogether(partial(_set_up, benchmark))
    inputs = {
        each: Declared(*(next(left) for _ in x.shape), dtype=_word(x.dtype), fill=together.fill(at))
        for at, (each, x) in enumerate(first.tensors.items())
    }
    output = Declared(*(next(left) for _ in first.out.shape), dtype=_word(first.out.dtype))
    by_name = {each.name: each for each in workloads}
    points: list[dict[str, Value]] = [
        {**{axis: values[at] for axis, values in axes.items()}, _WORKLOAD: each.name, "dtype": _word(first.out.dtype)}
        for at, each in enumerate(workloads)
    ]

    def verify(*tensors: Tensor, workload: str, **_: Any) -> Any:
        instance = by_name[workload].with_tensors(tensors, device=str(tensors[0].device))
        with on_device(tensors[0].device):
            return getattr(instance, f"verify_{workload}")()

    smallest = min(range(len(workloads)), key=lambda at: sum(workloads[at].sizes))
    case = Case(name, {key: value for key, value in points[smallest].items() if key != "dtype"}, _word(first.out.dtype))
    exact = allows_float64(
        partial(verify, workload=workloads[smallest].name),
        [partial(_like, x) for x in workloads[smallest].tensors.values()],
        lambda: [x.double() if x.is_floating_point() else x for x in draw_on_host(inputs.values(), case)],
    )
    dtypes = [x.dtype for x in first.tensors.values()]
    original = getattr(benchmark.class_, f"verify_{first.name}")
    try:
        operator = Operator(
            name,
            axes=tuple(axes),
            inputs=inputs,
            outputs={OUT: output},
            choices={_WORKLOAD: tuple(by_name)},
            reference=standing_for(reference_of(verify, {OUT: None}, None if exact else dtypes), original),
            output_ulps=OUTPUT_ULPS,
            dtypes=(_word(first.out.dtype),),
        )
        if not exact:
            use_own_tolerance(operator, lambda case: TOLERANCE)
        operator.provider(REFERENCE, sources=[benchmark.file])(standing_for(verify, original))
        _add_kernel(operator, benchmark, by_name)
    except ValueError as error:  # a name that kbench does not allow, or that is taken
        raise SourceFault(str(benchmark.file), str(error)) from None
    return SourceSweep(name, tuple(points), {each: {} for each in operator.providers})


def _set_up(benchmark: BenchmarkClass, case: Case, device: torch.device) -> list[Tensor]:
    return list(tensors_of(benchmark.set_up(str(case.axes[_WORKLOAD]), device))[0].values())


def _add_kernel(operator: Operator, benchmark: BenchmarkClass, workloads: dict[str, BenchmarkWorkload]) -> None:
    """Register the provider `kernel`. It writes into a buffer if the benchmark writes into the tensor `out` of its setup."""
    into = all(map(benchmark.writes_into, workloads))
    needs_kernel = any(map(benchmark.uses_kernel, workloads))

    def available() -> str | None:
        return kernel_package.unavailable(benchmark.file) if needs_kernel else None

    @operator.provider(KERNEL, factory=True, available=available, sources=[benchmark.file], out=[OUT] if into else ())
    def build(case: Case, *, workload: str) -> Callable[..., Any]:
        folder = kernel_package.kernel_folder(benchmark.file)
        kernel = kernel_package.load_kernel(folder) if needs_kernel and folder else None

        def run(*tensors: Tensor, **buffers: Tensor) -> Any:
            instance = workloads[workload].with_tensors(tensors, kernel=kernel, device=str(tensors[0].device))
            instance.out = (
                buffers[OUT] if into else torch.empty(operator.outputs[OUT].shape_in(case), **like(tensors[0]))
            )
            getattr(instance, f"benchmark_{workload}")()
            return None if into else instance.out

        def like(x: Tensor) -> dict[str, Any]:
            return {"dtype": getattr(torch, str(operator.outputs[OUT].dtype)), "device": x.device}

        return run


def _axes(workloads: Sequence[BenchmarkWorkload]) -> tuple[list[str], dict[str, tuple[int, ...]]]:
    """An expression for each size of the inputs and of the output, and the axes with their sizes in each workload.

    A size that is the same in all workloads is a number. Sizes that are the same as each other in all workloads share an axis.
    """
    first = workloads[0]
    named = [f"{name}_{at}" for name, x in (*first.tensors.items(), (OUT, first.out)) for at in range(x.dim())]
    axes: dict[str, tuple[int, ...]] = {}
    found = []
    for name, sizes in zip(named, zip(*(each.sizes for each in workloads), strict=True), strict=True):
        if len(set(sizes)) == 1:
            found.append(str(sizes[0]))
        elif sizes in axes.values():
            found.append(next(axis for axis, values in axes.items() if values == sizes))
        else:
            axes[name] = sizes
            found.append(name)
    return found, axes


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _like(x: Tensor, device: str) -> Tensor:
    return torch.empty(x.shape, dtype=torch.float64 if x.is_floating_point() else x.dtype, device=device)
