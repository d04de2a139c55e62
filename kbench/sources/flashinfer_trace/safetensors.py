"""Reads a tensor from a safetensors file: 8 bytes with the length of a JSON header, the header, and the values.

The format is public: https://huggingface.co/docs/safetensors. kbench needs no package for it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch

from kbench.files import opened
from kbench.sources.fault import SourceFault
from kbench.sources.flashinfer_trace.located_json import JsonValue

TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip

HEADER_BYTES = 100 << 20
"""The longest header that the format allows."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a safetensors file. `start` is where its values begin, in bytes from the beginning of the file."""

    file: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    def read(self) -> torch.Tensor:
        """Its values. Raises OSError, and ValueError if the file has changed."""
        count = math.prod(self.shape) * self.dtype.itemsize
        with opened(self.file) as stream:
            stream.seek(self.start)
            data = bytearray(stream.read(count))
        if len(data) != count:
            raise ValueError(f"{self.file} ends early")
        values = torch.frombuffer(data, dtype=self.dtype) if data else torch.empty(0, dtype=self.dtype)
        return values.reshape(self.shape)


def find_tensor(source: JsonValue, definition: Path) -> StoredTensor:
    """The tensor that the `path` and the `tensor_key` of a workload's input name. Raises SourceFault."""
    path, key = source.at("path").word(), source.at("tensor_key").word()
    file = _find(path, source.file, definition)
    if file is None:
        raise source.at("path").fault(f"no such file: {path}; the workload takes its inputs from it")
    try:
        with opened(file) as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > HEADER_BYTES:
                raise SourceFault(
                    str(file),
                    f"not readable as safetensors: its header has {length} bytes; the limit is {HEADER_BYTES} bytes",
                )
            header = json.loads(stream.read(length))
        if key in header:
            entry = header[key]
            dtype = entry["dtype"]
            if dtype not in TORCH_DTYPES:
                raise SourceFault(str(file), f"{key} has dtype {dtype}; kbench reads {', '.join(TORCH_DTYPES)}")
            return StoredTensor(file, TORCH_DTYPES[dtype], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise SourceFault(str(file), f"not readable as safetensors: {type(error).__name__}: {error}") from None
    known = ", ".join(name for name in header if name != "__metadata__")
    raise source.at("tensor_key").fault(f"{file} has no tensor {key}; it has {known or 'none'}")


def _find(path: str, *files: Path) -> Path | None:
    """A file that a workload names, relative to the folder of one of these files or to a folder above it. Leading folders of
    the name may be missing there."""
    parts = Path(path).parts
    for folder in dict.fromkeys(folder for file in files for folder in file.resolve().parents):
        for start in range(len(parts)):
            if (found := folder.joinpath(*parts[start:])).is_file():
                return found
    return None
