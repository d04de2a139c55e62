"""The CUDA providers: when they are offered, and how they are built."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

Build = Callable[..., subprocess.CompletedProcess[str]]

# ---- building: with a C++ source, which torch builds the same way and needs no device for


PROBE = r"""
#include <Python.h>
#include "answer.h"
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "probe", nullptr, -1, nullptr};
#define CONCATENATE(a, b) a##b
#define INIT(name) CONCATENATE(PyInit_, name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "answer", ANSWER);
  return module;
}
"""

BUILD = """
import os, sys
os.environ["BUILDER"] = str(os.getpid())
from pathlib import Path
from kbench.kernels import cuda_extension as extension
from kbench.text.exception_text import describe_exception
source = Path(sys.argv[1])
extension._target = lambda: "sm_90"
extension.BINDING = source.with_name("binding.cpp")
try:
    print(extension.build("probe", source).answer)
except RuntimeError as error:
    sys.exit(describe_exception(error))
"""


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    (tmp_path / "probe.cpp").write_text(PROBE)
    (tmp_path / "binding.cpp").write_text("")
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    return tmp_path / "probe.cpp"


@pytest.fixture
def build(probe: Path) -> Build:
    """Build and import the probe in a process of its own, with its cache beside the source."""

    def build(**environment: str) -> subprocess.CompletedProcess[str]:
        variables = os.environ | {"TORCH_EXTENSIONS_DIR": str(probe.with_name("cache"))} | environment
        return subprocess.run([sys.executable, "-c", BUILD, probe], env=variables, capture_output=True, text=True)

    return build


@pytest.mark.slow
def test_a_killed_build_holds_up_nobody_and_processes_build_once_until_a_header_changes(
    probe: Path, build: Build
) -> None:
    """torch's lock of the killed build is left behind; the next build neither waits for it nor reuses half of a library. A
    process that built again at the same time would replace the file of the library that the other has loaded."""
    builds, compilers = probe.with_name("builds"), {}
    for name, does in {"slow": "kill -9 $BUILDER $PPID; exit 1", "noting": f"echo built >> {builds}; sleep 1"}.items():
        compilers[name] = probe.with_name(f"{name}-c++")
        compilers[name].write_text(f'#!/bin/sh\ncase "$*" in *probe.cpp*) {does};; esac\nexec c++ "$@"\n')
        compilers[name].chmod(0o755)
    assert build(CXX=str(compilers["slow"])).returncode == -signal.SIGKILL
    assert list(probe.with_name("cache").rglob("lock")), "torch no longer leaves a lock: this test proves nothing"

    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda _: build(CXX=str(compilers["noting"])), range(2)))
    assert [process.stdout for process in ended] == ["42\n"] * 2, [process.stderr for process in ended]
    assert builds.read_text() == "built\n"
    says = "building CUDA extension probe for sm_90 (under a minute, cached afterwards) ..."
    assert sum(says in process.stderr for process in ended) == 1

    probe.with_name("answer.h").write_text("#define ANSWER 43\n")
    done = build()
    assert done.stdout == "43\n" and "building" in done.stderr, done.stderr
