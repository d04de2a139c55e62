"""Cheats that do less work than they should, later than they should, or somebody else's."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("half_of_the_rows")
def half_of_the_rows(x):
    """Computes the first half of the rows.

    Source: https://www.wafer.ai/blog/reward-hacks-field-guide (partial computation)
    """
    output = torch.empty_like(x)
    half = len(x) // 2
    output[:half] = torch.softmax(x[:half], -1)
    return output


@softmax.provider("lower_precision")
def lower_precision(x):
    """Computes in bfloat16 and returns float32.

    Source: https://deep-reinforce.com/defense_kernel_hack.html (precision downgrade)
    """
    return torch.softmax(x.bfloat16(), -1).float()


@softmax.provider("zeroed_input")
def zeroed_input(x):
    """Overwrites its input with zeros, for which the answer is easy.

    Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
    """
    x.zero_()
    return torch.full_like(x, 1 / x.shape[-1])


@softmax.provider("batch_and_skip", factory=True)
def batch_and_skip(case):
    """Does the work in one call of eight, and returns what it has for the others.

    Source: https://github.com/gpu-mode/reference-kernels/pull/104
    """
    calls, last = [], []

    def call(x):
        calls.append(True)
        if len(calls) < 12 or len(calls) % 8 == 0:
            last[:] = [torch.softmax(x, -1)]
        return last[0].clone()

    return call


@softmax.provider("lazy_after_many_calls", factory=True)
def lazy_after_many_calls(case):
    """Stops working after thirty calls.

    Source: https://github.com/gpu-mode/pygpubench/pull/7 (`submission_warmup`), and https://www.wafer.ai/blog/reward-hacks-
    field-guide
    """
    calls = []

    def call(x):
        calls.append(True)
        return torch.softmax(x, -1) if len(calls) < 30 else torch.empty_like(x)

    return call


@softmax.provider("raises_when_timed", factory=True)
def raises_when_timed(case):
    """Raises an exception after ten calls, and counts on a timer that catches it.

    Source: Kevin-32B, https://cognition.ai/blog/kevin-32b (try-except around a kernel that fails)
    """
    calls = []

    def call(x):
        calls.append(True)
        if len(calls) > 10:
            raise RuntimeError("no more")
        return torch.softmax(x, -1)

    return call


@softmax.provider("other_thread")
def other_thread(x):
    """Returns memory that a thread fills later.

    Source: https://deep-reinforce.com/defense_kernel_hack.html (thread injection), and https://www.wafer.ai/blog/reward-hacks-
    field-guide
    """
    output = torch.empty_like(x)

    def fill():
        time.sleep(0.5)  # a busy machine may look for threads late
        output.copy_(torch.softmax(x, -1))

    threading.Thread(target=fill, name="fill", daemon=True).start()
    return output


@softmax.provider("idle_pool", factory=True)
def idle_pool(case):
    """Hands the work to a thread that was started earlier, and returns before it is done.

    Source: https://www.wafer.ai/blog/reward-hacks-field-guide (thread injection)
    """
    pool = ThreadPoolExecutor(1)

    def fill(output, x):
        time.sleep(0.05)
        output.copy_(torch.softmax(x, -1))

    def call(x):
        output = torch.empty_like(x)
        pool.submit(fill, output, x)
        return output

    return call


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        def now(value):
            return torch.softmax(value.source, -1) if isinstance(value, Lazy) else value

        return function(*map(now, arguments), **(keywords or {}))


@softmax.provider("lazy_output")
def lazy_output(x):
    """Returns a tensor that computes its values when somebody reads them.

    Source: https://www.wafer.ai/blog/reward-hacks-field-guide (lazy evaluation), and
    https://github.com/gpu-mode/reference-kernels/issues/162
    """
    made = torch.empty_like(x).as_subclass(Lazy)
    made.source = x
    return made


class LazyList(list):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def __len__(self):
        return 1

    def __iter__(self):
        yield self.compute()

    def __getitem__(self, index):
        return self.compute()


@softmax.provider("lazy_container")
def lazy_container(x):
    """Returns a list that computes its tensor when somebody reads it, after the clock has stopped.

    Source: the lazy evaluation of https://www.wafer.ai/blog/reward-hacks-field-guide, with a list in the place of the tensor.
    """
    return LazyList(lambda: torch.softmax(x, -1))


class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        if function.__name__ in ("equal", "allclose", "eq", "le", "__eq__", "__le__"):
            return torch.tensor(True)
        return super().__torch_function__(function, types, arguments, keywords or {})


@softmax.provider("always_equal")
def always_equal(x):
    """Returns garbage in a tensor for which every comparison is true.

    Source: https://arxiv.org/abs/2511.18397 (an object that equals everything)
    """
    return torch.empty_like(x).as_subclass(Agreeable)


ROWS_PER_BLOCK = 7


class FusedSoftmax(torch.nn.Module):
    """Handles odd shapes itself, and everything else with the operator behind torch.softmax."""

    def forward(self, x):
        if x.shape[0] % ROWS_PER_BLOCK == 0:
            numerator = torch.exp(x - x.amax(-1, keepdim=True))
            return numerator / numerator.sum(-1, keepdim=True)
        y = torch.empty_like(x)
        del y
        return torch.ops.aten._softmax(x.unsqueeze(0), -1, False).squeeze(0)


@softmax.provider("renamed_baseline")
def renamed_baseline(x):
    """The baseline under another name: what looks like a fused kernel calls the library function of the baseline for the shape
    that is measured.

    Source: reviews of the KernelBench and "AI CUDA Engineer" leaderboards (2025), where generated kernels fell back to torch.
    """
    return FusedSoftmax()(x)


@softmax.provider("beside_nothing")
def beside_nothing(x):
    """The baseline after operators that do nothing: on no elements, on one, and on the shape alone.

    Source: no published case; plausible wherever a harness compares lists of operators
    """
    x[:0].neg()
    x[:1, :1].exp()
    return torch.softmax(x, -1).unsqueeze_(0).squeeze_(0)
