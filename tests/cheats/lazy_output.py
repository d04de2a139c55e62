"""Returns a tensor that computes its values when somebody reads them.

Source: https://www.wafer.ai/blog/reward-hacks-field-guide (lazy evaluation), and
https://github.com/gpu-mode/reference-kernels/issues/162
"""

import torch

import kbench

softmax = kbench.operator("softmax")


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        def now(value):
            return torch.softmax(value.source, -1) if isinstance(value, Lazy) else value

        return function(*map(now, arguments), **(keywords or {}))


@softmax.provider("lazy_output")
def call(x):
    made = torch.empty_like(x).as_subclass(Lazy)
    made.source = x
    return made
