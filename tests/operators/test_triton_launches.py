"""Every Triton provider compiles for the GPUs of TARGETS, and no kernel spills its registers.

The launches are those that the providers make themselves, in every mode, on a row length of language models. softmax and GELU
choose their kernels by size: `test_triton_compile.py` has them. This file is also a program, because Triton cannot compile in
a process that interprets: run by itself it compiles everything and prints what it found as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from ahead_of_time import TARGETS, compile_for, compiled_by, spilled_bytes

from kbench.contract.origin import shipped
from kbench.contract.provider import Unsupported
from kbench.contract.registry import operator
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

LENGTH, ROWS = 8192, 4
OPERATORS = [name for name in shipped() if name not in ("gelu", "softmax")]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of every launch, by its name."""
    found: dict[str, dict[str, Any]] = compiled_by(__file__, tmp_path_factory)
    return found


@pytest.mark.parametrize("name", [name for name in OPERATORS if "triton" in operator(name).providers])
def test_every_kernel_compiles_without_spilling(kernels: dict[str, dict[str, Any]], name: str) -> None:
    mine = {launch: found for launch, found in kernels.items() if launch.startswith(f"{name} ")}
    assert mine
    assert {launch: found for launch, found in mine.items() if found["spilled_bytes"]} == {}


def launches() -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """The name, the kernel and the arguments of every launch of every provider, without launching anything."""
    from triton.runtime.jit import JITFunction

    made: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        made.append((kernel, arguments, keywords))

    JITFunction.run = run
    for name in OPERATORS:
        definition = operator(name)
        for provider in definition.providers.values():
            if "triton" not in provider.requires:
                continue
            for dtype in ("float32", "bfloat16"):
                for mode in definition.words.get("mode", ("",)):
                    axes = {axis: LENGTH if i else ROWS for i, axis in enumerate(definition.axes)}
                    case = definition.case(dtype, **axes, **({"mode": mode} if mode else {}))
                    here = Definition(definition, case)
                    if dtype not in definition.dtypes or provider.declines(case):
                        continue
                    made.clear()
                    try:
                        inputs = Inputs(here, Device(), 0).draw("")
                        shapes = [output.declared.shape_in(case) for output in here.outputs]
                        stage_of(here, provider, {})(inputs, shapes).run()
                    except Unsupported:
                        continue
                    for kernel, arguments, keywords in made:
                        yield f"{name} {provider.name} {kernel.fn.__name__} {dtype}", kernel, arguments, dict(keywords)


def compile_all() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, kernel, arguments, keywords in launches():
        eight_bits = any(isinstance(each, torch.Tensor) and "float8" in str(each.dtype) for each in arguments)
        for target in TARGETS:
            here = f"{name} {target}"
            # sm_80 and gfx942 have no float8_e4m3fn; float32 is compiled for one target
            if here in found or (target != "sm_90" and (eight_bits or "float32" in name)):
                continue
            compiled = compile_for(target, kernel, arguments, dict(keywords))
            found[here] = {"spilled_bytes": spilled_bytes(target, compiled)}
            if keywords.get("NATIVE") is False and target != "sm_80":  # the conversion to 8 bits in hardware
                compiled = compile_for(target, kernel, arguments, {**keywords, "NATIVE": True})
                found[f"{here} native"] = {"spilled_bytes": spilled_bytes(target, compiled)}
    return found


if __name__ == "__main__":
    print(json.dumps(compile_all()))
