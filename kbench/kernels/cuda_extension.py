"""CUDA C++ extensions: whether this machine can build them, and how they are built.

torch compiles a `.cu` file and the shared `binding.cpp` into one Python extension module, for the present NVIDIA device only.
The library is kept in torch's own cache (`TORCH_EXTENSIONS_DIR`, by default `~/.cache/torch_extensions`). Its name contains
everything that it depends on: versions, device, and a hash of the sources.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch
from filelock import FileLock, Timeout

from kbench.contract.origin import code_files
from kbench.results.stamps import digest

HERE = Path(__file__).parent
BINDING = HERE / "binding.cpp"
"""The C++ file that is compiled with every CUDA source."""

MOST_ERRORS = 5
"""Errors of a compiler that kbench repeats: later ones mostly follow from the first."""

BUILD_WAIT_S = 300
"""How long a process waits for another one that builds the same extension. Then it builds the extension itself."""

_failures: dict[str, str] = {}
"""Why an extension of this name does not build, so that only the first case of a run waits for the compiler."""


def missing_tools() -> str | None:
    """Why CUDA providers cannot run on this machine, with what to install; None if they can."""
    if torch.version.hip:
        return "CUDA sources are for NVIDIA devices"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    if not _nvcc():
        return f"nvcc is not on PATH; install the CUDA toolkit {torch.version.cuda}"
    if not shutil.which("ninja", path=_path()):
        return "ninja is not on PATH; pip install ninja"
    cxx = os.environ.get("CXX", "c++")
    if not shutil.which(cxx.split()[0]):
        return f"no C++ compiler ({cxx}) on PATH; install g++ or set CXX"
    return None


@functools.cache
def build(name: str, source: Path) -> ModuleType:
    """The extension module of `source`; built unless the cache has it. `binding.cpp` says what is in the module.

    Raises RuntimeError, with the compiler's first errors, if it does not compile.
    """
    key = _key(name, source)
    library = _cache() / key / f"{key}.so"
    if library.exists():
        return _load(key, library)
    if key in _failures:
        raise RuntimeError(_failures[key])
    with _alone(library, name):
        if library.exists():
            return _load(key, library)
        _say(f"building CUDA extension {name} for {_target()} (under a minute, cached afterwards) ...")
        try:
            return _compile(key, source, library)
        except (RuntimeError, ImportError) as error:
            _failures[key] = describe_build_error(source, error)
            raise RuntimeError(_failures[key]) from error


def _say(text: str) -> None:
    print(f"kbench: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _alone(library: Path, name: str) -> Iterator[None]:
    """No other process of this host builds the library meanwhile, unless that takes very long or the file system has no locks.
    The system releases the lock when its process ends, however it ends."""
    library.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(library.with_suffix(".lock"))
    with contextlib.suppress(Timeout, OSError, NotImplementedError):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _say(f"waiting for another process, which builds CUDA extension {name} ...")
            lock.acquire(timeout=BUILD_WAIT_S)
    try:
        yield
    finally:
        lock.release()


def describe_build_error(source: Path, error: Exception) -> str:
    """The first errors in what a build printed, a line for each: `mine.cu:12: error: identifier "x" is undefined`."""
    text = str(error)
    if re.search(r"undefined symbol.*kbench\d*kernels", text):
        return f"{source.name} does not define the table `kernels` in the namespace kbench"
    pattern = r"^(\S[^\n]*?)[(:](\d+(?::\d+)?)\)?: (?:fatal |catastrophic )?error ?(?:#[\w-]+)?: ?([^\n]+)"
    faults = list(dict.fromkeys(re.findall(pattern, text, re.MULTILINE)))
    if not faults:
        lines = [line for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"\b(error|fatal|undefined)\b", line, re.IGNORECASE)]
        return "\n".join(
            [f"{source.name} does not build: {(errors or lines or ['no message'])[0]}", *lines[-MOST_ERRORS:]]
        )
    errors = [f"{Path(file).name}:{place}: error: {fault}" for file, place, fault in faults[:MOST_ERRORS]]
    if len(faults) > 1:
        errors[0] += f" (the first of {len(faults)} errors)"
    return "\n".join(errors)


def _compile(key: str, source: Path, library: Path) -> ModuleType:
    """Build in a folder of this process's own, then move the finished library into place.

    torch guards a build folder with a lock file. If the process is killed, the file stays, and every later build waits for
    it forever. No other process uses this folder, so a killed build leaves rubbish but blocks nobody. The library is whole when
    it is moved into place, also if two hosts with one home folder build it at the same time.
    """
    from torch.utils import cpp_extension

    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder, _toolchain():
        module: ModuleType = cpp_extension.load(
            key,
            [str(source), str(BINDING)],
            extra_cflags=["-O2"],
            extra_cuda_cflags=["-O3"],
            extra_include_paths=[str(HERE)],
            build_directory=folder,
        )
        Path(folder, library.name).replace(library)
    return module


def _key(name: str, source: Path) -> str:
    """Name of the extension module, a Python identifier. It changes with everything that the library depends on."""
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    toolkit = f"cuda{torch.version.cuda}_nvcc{nvcc_release()}"
    texts = [file.read_text(encoding="utf-8") for file in code_files([source, BINDING])]
    parts = ("kbench", name, python, f"torch{torch.__version__}", toolkit, _target(), digest(texts))
    return re.sub(r"\W", "_", "_".join(parts))


def _load(key: str, library: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(key, library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cache() -> Path:
    """The folder in which torch keeps extensions."""
    from torch.utils import cpp_extension

    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root())


def _target() -> str:
    """The compiler's name of the present device: `sm_90`."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])


@contextlib.contextmanager
def _toolchain() -> Iterator[None]:
    """Have torch build for the present device only, with the toolkit of this nvcc, and with this Python's `bin` on PATH, where
    ninja may be. The environment is as before afterwards."""
    from torch.utils import cpp_extension

    environment, home_before = dict(os.environ), cpp_extension.CUDA_HOME
    number = _target().removeprefix("sm_")
    os.environ.update({"TORCH_CUDA_ARCH_LIST": f"{number[:-1]}.{number[-1]}", "PATH": _path()})
    if toolkit := cuda_toolkit():
        cpp_extension.CUDA_HOME = str(toolkit)
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = home_before
        os.environ.clear()
        os.environ.update(environment)


def _nvcc() -> str | None:
    """The path of nvcc: in the toolkit that a variable names, on PATH, or in the toolkit's usual place."""
    toolkits = [os.environ[variable] for variable in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(variable)]
    paths = [*(f"{toolkit}/bin" for toolkit in toolkits), None, "/usr/local/cuda/bin"]
    return next((nvcc for path in paths if (nvcc := shutil.which("nvcc", path=path))), None)


def nvcc_release() -> str | None:
    """The release that nvcc reports; None without nvcc. It is the nvcc that builds extensions."""
    nvcc = _nvcc()
    if nvcc is None:
        return None
    try:
        answer = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    release = re.search(r"release ([^,\s]+)", answer)
    return release[1] if release else None


def cuda_toolkit() -> Path | None:
    """Root of the CUDA toolkit, with its headers and libraries; None without nvcc.

    nvcc reports it: if the nvcc on PATH is a link or a wrapper script, the folder above it is not the toolkit.
    """
    nvcc = _nvcc()
    if nvcc is None:
        return None
    plan = subprocess.run([nvcc, "--dryrun", "-E", "-x", "cu", os.devnull], capture_output=True, text=True, check=True)
    top = re.search(r"^#\$ TOP=(.+)$", plan.stderr, re.MULTILINE)
    return Path(top[1]).resolve() if top else Path(nvcc).resolve().parent.parent
