"""Triton's interpreter, which runs kernels on a host: what it gets wrong, what it does in vain, and whether it has run one.

It holds bfloat16 numbers in numpy's integers, and computes with these: products, sums, comparisons and conversions then have
nothing to do with those of a GPU. Here they are computed in float32, and rounded to bfloat16.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

COMPUTES = ("binary_op", "ternary_op", "create_fma", "create_dot")
"""The methods of the interpreter's builder that compute. The last tensor that each takes has the dtype of its result."""


def prepare_interpreter() -> None:
    """Have Triton kernels run in the interpreter, in this process. Call it before anything imports triton, because triton reads
    the variable TRITON_INTERPRET on import only."""
    os.environ["TRITON_INTERPRET"] = "1"
    _let_autotuners_run()
    _correct_bfloat16()
    _skip_needless_work()


def interpreter_probe() -> Callable[[], bool]:
    """Returns a function that tells whether a Triton kernel has run in the interpreter since this call.

    A launch stores its grid in the builder of the interpreter, so a builder without a grid means that nothing was launched.
    """
    if os.environ.get("TRITON_INTERPRET") != "1" or not find_spec("triton"):
        return lambda: False
    from triton.runtime import interpreter

    builder: Any = interpreter.interpreter_builder
    builder.grid_dim = None
    return lambda: builder.grid_dim is not None


def _let_autotuners_run() -> None:
    """Let autotuners take their first configuration. To time them they ask for a driver."""
    from triton.runtime.autotuner import Autotuner

    Autotuner.do_bench = property(lambda tuner: lambda call, quantiles: [0.0] * len(quantiles))


def _correct_bfloat16() -> None:
    """Have the interpreter compute with the values of bfloat16 numbers."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    reductions: Any = interpreter.ReduceOps
    handle: Any = interpreter.TensorHandle
    cast, total = builder.cast_impl, reductions.sum

    def is_bfloat16(x: Any) -> bool:
        return isinstance(x, handle) and x.dtype == tl.bfloat16

    def widened(x: Any) -> Any:
        return handle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32) if is_bfloat16(x) else x

    def rounded(values: Any) -> Any:
        bits = torch.from_numpy(np.array(values, np.float32)).to(torch.bfloat16).view(torch.int16)
        return handle(bits.numpy().view(np.uint16), tl.bfloat16)

    def converted(self: Any, x: Any, dtype: Any) -> Any:
        wide = widened(x)
        return rounded(wide.data) if dtype.scalar == tl.bfloat16 else cast(self, wide, dtype)

    def computing(compute: Callable[..., Any]) -> Callable[..., Any]:
        def computed(self: Any, *operands: Any) -> Any:
            if not any(map(is_bfloat16, operands)):
                return compute(self, *operands)
            result = compute(self, *map(widened, operands))
            [*_, last] = [x for x in operands if isinstance(x, handle)]
            # the result of a comparison is a bool
            narrow = is_bfloat16(last) and result.data.dtype != np.bool_
            return rounded(result.data) if narrow else result

        return computed

    def sum_of(self: Any, tensor: Any) -> Any:
        if not is_bfloat16(tensor.handle):
            return total(self, tensor)
        values = np.sum(widened(tensor.handle).data, axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(rounded(values).data, tensor.dtype)

    for name in COMPUTES:
        setattr(builder, name, computing(getattr(builder, name)))
    builder.cast_impl = converted
    builder.get_bf16 = lambda self, value: rounded([value])  # it has none
    reductions.sum = sum_of


def _skip_needless_work() -> None:
    """Spare the interpreter some of its time. By itself, it checks each sum of integers for an overflow, and drops the result;
    makes a table of numpy's dtypes to look up one; replaces the functions of `triton.language` at every call from a kernel,
    although the launch has replaced them; and makes objects for each size of each tensor."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    if not all(hasattr(interpreter, name) for name in ("_get_np_dtype", "_patch_lang", "_LangPatchScope")):
        return  # another version of Triton

    interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
    replace, numpy_dtype = interpreter._patch_lang, functools.cache(interpreter._get_np_dtype)

    def dtype_in_numpy(dtype: Any) -> Any:
        return np.dtype(np.uint64) if dtype.scalar.is_ptr() else numpy_dtype(dtype.scalar)

    @functools.cache
    def languages(function: Any) -> list[Any]:
        """The modules of Triton's language that a kernel sees."""
        return [value for value in function.__globals__.values() if value is tl or value is tl.core]

    def replace_once(function: Any) -> Any:
        seen = languages(function)
        replaced = seen and not any(tl.core.is_builtin(language.load) for language in seen)
        return interpreter._LangPatchScope() if replaced else replace(function)

    interpreter._get_np_dtype = dtype_in_numpy
    interpreter._patch_lang = replace_once
    _make_shapes_once(tl.core)


def _make_shapes_once(core: Any) -> None:
    """Let blocks of the same sizes share the objects that say so."""
    make_type, make_tensor = core.block_type.__init__, core.tensor.__init__
    block = core.block_type(core.float32, [2])
    fields = {*vars(block), *vars(core.tensor(None, block))}
    if fields != {"element_ty", "name", "shape", "numel", "handle", "type", "dtype"}:
        return  # another version of Triton

    @functools.cache
    def of_sizes(*sizes: int) -> tuple[Any, str, Any]:
        """The type, the shape as text, and a tensor of a block of these sizes; of a number without."""
        kind, tensor = core.float32, core.tensor.__new__(core.tensor)
        if sizes:
            kind = core.block_type.__new__(core.block_type)
            make_type(kind, core.float32, list(sizes))
        make_tensor(tensor, None, kind)
        return kind, str(kind.shape) if sizes else "", tensor

    def block_type(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = [size.value if isinstance(size, core.constexpr) else size for size in shape]
        if not sizes or not all(type(size) is int for size in sizes):
            make_type(self, element_ty, shape)  # it says what is wrong
            return
        kind, text, _ = of_sizes(*sizes)
        self.element_ty, self.shape, self.numel = element_ty, kind.shape, kind.numel
        self.name = f"<{text}, {element_ty}>"

    def tensor(self: Any, handle: Any, kind: Any) -> None:
        *_, alike = of_sizes(*(kind.shape if kind.is_block() else ()))
        self.handle, self.type, self.dtype, self.shape, self.numel = handle, kind, kind.scalar, alike.shape, alike.numel

    core.block_type.__init__, core.tensor.__init__ = block_type, tensor
