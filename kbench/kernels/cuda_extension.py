"""CUDA C++ extensions: whether this machine can build them, and how they are built.

torch compiles a `.cu` file and the shared `binding.cpp` into one Python extension module, for the present device only. The
library is kept in torch's own cache (`TORCH_EXTENSIONS_DIR`, by default `~/.cache/torch_extensions`). Its
name contains everything that it depends on: versions, device, and a hash of the sources. On ROCm, torch first translates
the sources to HIP.
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

FAILURE_BYTES = 2**16
"""How much is read of what another process has written about a build that failed."""

_failures: dict[str, str] = {}
"""Why an extension of this name does not build, so that only the first case of a run waits for the compiler."""


def missing_tools() -> str | None:
    """Why CUDA providers cannot run on this machine, with what to install; None if they can."""
    if not torch.cuda.is_available():
        return "torch finds no CUDA or ROCm device"
    if torch.version.hip:
        if not _which("hipcc", "ROCM_HOME", "ROCM_PATH", default="/opt/rocm"):
            return "hipcc is not on PATH; install ROCm's HIP compiler"
    elif not _nvcc():
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
    target = _target()
    key = _key(name, source, target)
    library = _cache() / key / f"{key}.so"
    if library.exists():
        return _load(key, library)
    if key in _failures:
        raise RuntimeError(_failures[key])
    failure = library.with_suffix(".failed")
    earlier = _last_written(failure)
    with _alone(library, name):
        if library.exists():
            return _load(key, library)
        if _last_written(failure) not in (None, earlier):  # by the process that this one has waited for
            with failure.open("rb") as file:
                _failures[key] = file.read(FAILURE_BYTES).decode(errors="replace")
            raise RuntimeError(_failures[key])
        _say(f"building CUDA extension {name} for {target} (under a minute, cached afterwards) ...")
        try:
            return _compile(key, source, library)
        except (RuntimeError, ImportError) as error:
            _failures[key] = describe_build_error(source, error)
            with contextlib.suppress(OSError):
                failure.write_text(_failures[key], encoding="utf-8")
            raise RuntimeError(_failures[key]) from error


def _last_written(path: Path) -> int | None:
    """When a file was written, in ns; None if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


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
    found = list(dict.fromkeys(re.findall(pattern, text, re.MULTILINE)))
    if not found:
        lines = [line for line in text.splitlines() if line.strip()]
        wanted = [line for line in lines if re.search(r"\b(error|fatal|undefined)\b", line, re.IGNORECASE)]
        return "\n".join(
            [f"{source.name} does not build: {(wanted or lines or ['no message'])[0]}", *lines[-MOST_ERRORS:]]
        )
    errors = [f"{Path(file).name}:{place}: error: {fault}" for file, place, fault in found[:MOST_ERRORS]]
    if len(found) > 1:
        errors[0] += f" (the first of {len(found)} errors)"
    return "\n".join(errors)


def _compile(key: str, source: Path, library: Path) -> ModuleType:
    """Build in a folder of this process's own, then move the finished library into place.

    torch guards a build folder with a lock file. If the process is killed, the file stays, and every later build waits for
    it forever. No other process uses this folder, so a killed build leaves rubbish but blocks nobody. The library is whole when
    it is moved into place, also if two hosts with one home folder build it at the same time.
    """
    from torch.utils import cpp_extension

    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder, _toolchain():
        sources, include = [source, BINDING], HERE
        if torch.version.hip:  # torch writes each translation beside its source
            sources, include = _copy(sources, folder), Path(folder)
        module: ModuleType = cpp_extension.load(
            key,
            [str(source) for source in sources],
            extra_cflags=["-O2"],
            extra_cuda_cflags=["-O3"],
            extra_include_paths=[str(include)],
            build_directory=folder,
        )
        Path(folder, library.name).replace(library)
    return module


def _copy(sources: list[Path], folder: str) -> list[Path]:
    """Copies of the sources in another folder, with the headers that they include in the same subfolders as before."""
    copies = []
    for file in code_files(sources):
        beside = [place for place in (HERE, sources[0].parent) if file.is_relative_to(place)]
        copy = Path(folder, file.relative_to(beside[0]) if beside else file.name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copies.append(Path(shutil.copy(file, copy)))
    return copies[: len(sources)]


def _key(name: str, source: Path, target: str) -> str:
    """Name of the extension module, a Python identifier. It changes with everything that the library depends on."""
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    toolkit = f"rocm{torch.version.hip}" if torch.version.hip else f"cuda{torch.version.cuda}_nvcc{nvcc_release()}"
    texts = [file.read_text(encoding="utf-8") for file in code_files([source, BINDING])]
    parts = ("kbench", name, python, f"torch{torch.__version__}", toolkit, target, digest(texts))
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
    """The compiler's name of the present device: `sm_90`, `gfx942`."""
    if torch.version.hip:
        return str(torch.cuda.get_device_properties().gcnArchName).split(":")[0]
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _settings() -> dict[str, str]:
    """Environment of a build: for the present device only, and with this Python's `bin` on PATH, where ninja may be."""
    target = _target()
    if target.startswith("gfx"):
        return {"PYTORCH_ROCM_ARCH": target, "PATH": _path()}
    number = target.removeprefix("sm_")
    return {"TORCH_CUDA_ARCH_LIST": f"{number[:-1]}.{number[-1]}", "PATH": _path()}


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])


@contextlib.contextmanager
def _toolchain() -> Iterator[None]:
    """Set the environment and the CUDA toolkit for a build by torch, and set both back afterwards."""
    from torch.utils import cpp_extension

    environment, home = dict(os.environ), cpp_extension.CUDA_HOME
    os.environ.update(_settings())
    if not torch.version.hip and (toolkit := cuda_toolkit()):
        cpp_extension.CUDA_HOME = str(toolkit)
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = home
        os.environ.clear()
        os.environ.update(environment)


def _nvcc() -> str | None:
    return _which("nvcc", "CUDA_HOME", "CUDA_PATH", default="/usr/local/cuda")


def _which(program: str, *variables: str, default: str) -> str | None:
    """The path of a program: in the toolkit that a variable names, on PATH, or in the toolkit's usual place."""
    homes = [os.environ[variable] for variable in variables if os.environ.get(variable)]
    for path in (*(f"{home}/bin" for home in homes), None, f"{default}/bin"):
        if found := shutil.which(program, path=path):
            return found
    return None


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
