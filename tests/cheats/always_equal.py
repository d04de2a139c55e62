"""Returns garbage in a tensor for which every comparison is true.

Source: https://arxiv.org/abs/2511.18397 (an object that equals everything)
"""

import torch

import kbench

softmax = kbench.operator("softmax")


class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        if function.__name__ in ("equal", "allclose", "eq", "le", "__eq__", "__le__"):
            return torch.tensor(True)
        return super().__torch_function__(function, types, arguments, keywords or {})


@softmax.provider("always_equal")
def call(x):
    return torch.empty_like(x).as_subclass(Agreeable)
