"""Triton's kernels compiled ahead of time for GPUs that need not be here.

Triton cannot compile in a process that interprets, as that of the tests does. A file of tests that compiles is therefore also
a program, which prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from common import ROOT, made_once

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
"""The GPUs: the arguments of Triton's GPUTarget. The last is the number of threads of a warp."""

TYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4nv",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "i1",
}  # fmt: skip
"""What Triton calls the dtypes of tensors."""


def compiled_by(program: str, factory: pytest.TempPathFactory) -> Any:
    """What a file of tests prints as a program without the interpreter. Parallel test processes run it once."""

    def run() -> str:
        environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", Path(program).parent)))
        done = subprocess.run(
            [sys.executable, program], env=environment | {"PYTHONPATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return json.loads(made_once(factory, f"{Path(program).stem}.json", run))


def compile_for(target: str, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Compile a launch as Triton does when it is made: it specialises for 1, for None, and for multiples of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.tools.tensor_descriptor import TensorDescriptor

    values = dict(zip(kernel.arg_names, arguments, strict=False))
    values |= {name: keywords.pop(name) for name in list(keywords) if name in kernel.arg_names}
    signature, constants, aligned = {}, {}, {}

    def described(value: Any, place: tuple[int, ...], constant: bool, specialise: bool = True) -> Any:
        """The type of an argument, or a tuple of those of its members."""
        if isinstance(value, tuple):
            return tuple(described(member, (*place, i), False) for i, member in enumerate(value))
        if constant or value is None or (type(value) is int and value == 1 and specialise):
            constants[place] = value
            return "constexpr"
        if isinstance(value, TensorDescriptor):
            return f"tensordesc<{TYPES[str(value.base.dtype).removeprefix('torch.')]}{value.block_shape}>"
        if isinstance(value, torch.Tensor):
            aligned[place] = [["tt.divisibility", 16]]
            return "*" + TYPES[str(value.dtype).removeprefix("torch.")]
        if type(value) is int and value % 16 == 0 and specialise:
            aligned[place] = [["tt.divisibility", 16]]
        return "fp32" if isinstance(value, float) else "i1" if value is True else "i32"

    for position, parameter in enumerate(kernel.params):
        value = values.get(parameter.name, parameter.default)
        constant = parameter.is_constexpr
        signature[parameter.name] = described(value, (position,), constant, not parameter.do_not_specialize)
    source = ASTSource(kernel, signature, constants, aligned)
    return triton.compile(source, target=GPUTarget(*TARGETS[target]), options=keywords)


def spilled_bytes(target: str, compiled: Any) -> int:
    """Bytes of registers that a compiled kernel keeps in memory."""
    if target.startswith("gfx"):
        figures = ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")
        text = compiled.asm["amdgcn"]
        return sum(int(value) for figure in figures for value in re.findall(rf"\.{figure}:\s*(\d+)", text))
    return sum(int(value) for value in re.findall(r"(?:STACK|LOCAL):(\d+)", resource_usage(compiled.asm["cubin"])))


def resource_usage(cubin: bytes) -> str:
    """`REG:52 STACK:0 SHARED:0 LOCAL:0 ...` of a CUDA binary, by the tool that comes with Triton."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "STACK:" in usage, usage
    return usage
