"""The policies of loads in device.cuh are those that the instruction `createpolicy` makes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kbench.kernels import cuda_extension
from kbench.why.listing import dump_code

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")]

SOURCE = """
#include "device.cuh"
__global__ void made(unsigned long long* to) {
  asm("createpolicy.fractional.L2::%s.b64 %%0, 1.0;" : "=l"(*to));
}
__global__ void ours(kbench::LoadPolicy* to) { *to = kbench::LoadPolicy::%s; }
"""


@pytest.mark.parametrize(("priority", "policy"), [("evict_normal", "usual"), ("evict_last", "keep")])
def test_a_policy_is_the_word_that_the_instruction_makes(tmp_path: Path, priority: str, policy: str) -> None:
    """sm_80, where the assembler computes the word. On sm_90 it is computed in the kernel, in several instructions."""
    source, binary = tmp_path / "policy.cu", tmp_path / "policy.cubin"
    source.write_text(SOURCE % (priority, policy))
    command = ["nvcc", "-arch=sm_80", "-std=c++17", "-cubin", "-I", cuda_extension.HERE, "-o", binary, source]
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=120)
    listing = dump_code(["-sass"], binary)
    made, ours = (
        {word for word in re.findall(r"0x[0-9a-f]+(?= ;)", part) if int(word, 16) > 0xFFFF}
        for part in re.split("Function : ", listing)[1:]
    )
    assert len(made) == 1
    assert made == ours
