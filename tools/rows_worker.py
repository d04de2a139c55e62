"""A worker of measuring_rows.py: measures providers on one shape of one operator at a time, all in this process.

It reads requests from its standard input and answers each on its standard output, a line of JSON each. What libraries print
goes to standard error. A row is `{"operator": ..., "mode": ..., "dtype": ..., "M": ..., "N": ...}`, with `weight_dtype` for a
norm whose weights are not in the dtype of x.

    {"do": "build", "row": ROW}                                     build the CUDA sources of the operator
    {"do": "compile", "row": ROW, "providers": [...]}               compile the Triton kernels of a row, launch nothing
    {"do": "measure", "row": ROW, "providers": [...], "rounds": 3}  the medians in microseconds, and what failed

With `"candidates": [WORD, ...]`, both also take other launches of `triton` and `cuda` whose names contain one of the words; []
takes all. See rows_candidates.py.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from typing import Any, NamedTuple

import torch

import kbench
from kbench.kernels import cuda_extension
from kbench.measure.correctness.call import Call, stage_of
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import measure_launch_ms

WARMUP_MS, REP_MS = 2.0, 8.0
"""How long a round runs a provider untimed, and timed."""

LARGEST_ERROR = {2: 2**-6, 4: 3e-5}
"""By itemsize: how far an output may be from torch's, relative to its largest element, before a line names it."""


class Contender(NamedTuple):
    """A provider. `forced` makes a context in which it takes another launch than its dispatch chooses."""

    name: str
    provider: str
    forced: Callable[[], AbstractContextManager[None]] = nullcontext


class Shape:
    """One operator in one mode on one shape, with inputs. `drawn` is whether these are random; otherwise nothing fills those in
    floating point, and whole numbers, which kernels may use as columns, are zero."""

    def __init__(self, row: dict[str, Any], device: Device, drawn: bool) -> None:
        operator = kbench.operator(row["operator"])
        sizes = dict(zip(operator.axes, (row["M"], row["N"]), strict=True))
        choices = {"mode": row["mode"]} if row["mode"] != "forward" else {}
        if "weight_dtype" in row:
            choices["weight_dtype"] = row["weight_dtype"]
        self.operator, self.case = operator, operator.case(row["dtype"], **sizes, **choices)
        self.definition = Definition(operator, self.case)
        self.device, self.row = device, row
        self.inputs = Inputs(self.definition, device, 0).draw("") if drawn else self._unfilled()
        self.shapes = [output.declared.shape_in(self.case) for output in self.definition.outputs]

    def _unfilled(self) -> tuple[torch.Tensor, ...]:
        def empty(tensor: Any) -> torch.Tensor:
            dtype = getattr(torch, tensor.dtype_in(self.case))
            make = torch.empty if dtype.is_floating_point else torch.zeros
            return make(tensor.shape_in(self.case), dtype=dtype, device=self.device.torch_device)

        received = self.operator.output_gradients(self.case) if self.row["mode"] != "forward" else {}
        return tuple(empty(tensor) for tensor in (*self.operator.inputs.values(), *received.values()))

    def contenders(self, providers: Sequence[str], candidates: Sequence[str] | None) -> list[Contender]:
        """These providers, as far as the operator has them, and other launches of them. Those that work in place come last."""
        known = self.operator.providers
        found = [Contender(name, name) for name in providers if name in known]
        if self.row["mode"] != "forward":  # not to build forward kernels that have no gradients
            found = [each for each in found if each.provider != "cuda" or known["cuda"].backward or known["cuda"].full]
        if candidates is not None:
            from rows_candidates import candidates_of  # an older checkout may lack what it imports

            found += [
                Contender(f"{provider}: {label}", provider, forced)
                for label, provider, forced in candidates_of(self.row, candidates)
                if provider in providers
            ]
        return sorted(found, key=lambda each: each.name.endswith("in-place"))

    def prepared(self, contender: Contender) -> Call:
        """Raises Unsupported if the provider does not run here, and whatever it raises."""
        provider = self.operator.providers[contender.provider]
        if why := provider.unavailable(self.device.type) or provider.declines(self.case):
            raise kbench.Unsupported(why)
        return stage_of(self.definition, provider, {})(self.inputs, self.shapes)


@contextmanager
def only_compiling() -> Iterator[None]:
    """Triton compiles kernels, and does not launch them."""
    from triton.runtime.jit import JITFunction

    run = JITFunction.run

    def compile_only(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        return run(kernel, *arguments, grid=grid, warmup=True, **options)

    JITFunction.run = compile_only
    try:
        yield
    finally:
        JITFunction.run = run


def reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:160]


def compile_row(shape: Shape, contenders: Sequence[Contender]) -> dict[str, Any]:
    failed = {}
    with only_compiling():
        for each in contenders:
            if each.provider.startswith("cuda"):  # it is built already, and it would be launched
                continue
            try:
                with each.forced():
                    shape.prepared(each).run()
            except kbench.Unsupported:
                pass
            except Exception as error:  # noqa: BLE001  a candidate may fail in any way
                failed[each.name] = reason(error)
    return {"failed": failed}


def build(row: dict[str, Any]) -> dict[str, Any]:
    """Build what the provider `cuda` launches, if the operator has it in this mode."""
    if "cuda" in kbench.operator(row["operator"]).providers:
        module = importlib.import_module(f"kbench.operators.{row['operator']}.providers_cuda")
        source = getattr(module, "BACKWARD_SOURCE" if row["mode"] == "backward" else "SOURCE", None)
        if source is not None:
            cuda_extension.build(source.path.stem, source.path)
    return {}


def difference(outputs: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest distance, relative to the largest element of an output; in units of LARGEST_ERROR."""
    worst = 0.0
    for found, wanted in zip(outputs, expected, strict=True):
        limit = LARGEST_ERROR.get(found.element_size(), LARGEST_ERROR[4])
        distance = (found.float() - wanted.float()).abs().max() / wanted.abs().max().float().clamp_min(1e-30)
        worst = max(worst, float(distance.nan_to_num(1e9)) / limit)
    return worst


def measure(shape: Shape, contenders: Sequence[Contender], rounds: int) -> dict[str, Any]:
    """Every contender makes a call, which is compared with torch's. Then all are timed in turns."""
    device, failed, wrong = shape.device, {}, {}
    expected = None
    if "torch-native" in shape.operator.providers:
        try:
            call = shape.prepared(Contender("torch", "torch-native"))
            expected = [x.detach().clone() for x in call.outputs(call.run())]
            del call
        except Exception as error:  # noqa: BLE001
            failed["torch, for comparison"] = reason(error)
    bench, timed = BenchTimer(device, "cold"), {}
    for each in contenders:
        try:
            with each.forced():
                call = shape.prepared(each)
                outputs = call.outputs(call.run())
                device.synchronize()
                if call.mutates:
                    expected = None  # the inputs are others now
                if expected is not None and (error_ := difference(outputs, expected)) > 1:
                    wrong[each.name] = round(error_, 1)
                del outputs
                timed[each.name] = (each, bench.ready([call.run], measure_launch_ms(call.run, device)))
        except Exception as error:  # noqa: BLE001
            failed[each.name] = reason(error)
            if not device.healthy():
                return {"failed": failed, "lost": True}
    expected = None
    algorithmic_bytes = shape.definition.call_bytes()
    source = torch.empty(max(1, algorithmic_bytes // 2), dtype=torch.uint8, device=device.torch_device)
    target = torch.empty_like(source)
    timed["copy"] = (Contender("copy", ""), bench.ready([lambda: target.copy_(source)], None))
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, (each, sample) in list(timed.items()):
            try:
                with each.forced():
                    times[name].append(1000 * median(sample(WARMUP_MS, REP_MS)))
            except Exception as error:  # noqa: BLE001
                failed[name] = reason(error)
                del timed[name]
                if not device.healthy():
                    return {"failed": failed, "lost": True}
    us = {name: median(found) for name, found in times.items() if found}
    return {"us": us, "bytes": algorithmic_bytes, "failed": failed, "wrong": wrong}


def answer(request: dict[str, Any], device: Device) -> dict[str, Any]:
    do, row = request["do"], request["row"]
    if do == "build":
        return build(row)
    shape = Shape(row, device, drawn=do == "measure")
    contenders = shape.contenders(request["providers"], request.get("candidates"))
    if do == "compile":
        return compile_row(shape, contenders)
    return measure(shape, contenders, request["rounds"])


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    device = Device()
    device.set_up()
    for line in sys.stdin:
        try:
            found = answer(json.loads(line), device)
        except Exception as error:  # noqa: BLE001  the parent prints it, and goes on with the next row
            found = {"error": reason(error)}
        device.release()
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
