"""Plain loops over sizes and providers, two call sites, times in us, a memory mode, and a set-up function; no perf_report."""

import sys

import torch
import triton.testing
from triton.testing import do_bench

QUANTILES = [0.5, 0.2, 0.8]


def set_up(size):
    x = torch.randn(size, size, requires_grad=True)
    return x, torch.ones(size, size)


def speed(fn, x):
    times = do_bench(fn, warmup=1, rep=5, grad_to_none=[x], quantiles=QUANTILES)
    assert len(times) == 3
    return [1000 * ms for ms in times]


def memory(fn):
    fn()
    return 0.0


providers = {"relu": torch.relu, "abs": torch.abs}
for size in map(int, sys.argv[2:]):
    x, dy = set_up(size)
    for name, function in providers.items():
        if sys.argv[1] == "memory":
            print(name, memory(lambda: function(x)))
            continue
        us, low, high = speed(lambda: function(x).backward(dy), x)
        assert low <= us <= high
        print(f"{name} {size}: {us:.1f} us")
        print(triton.testing.do_bench(lambda: function(x.detach()), warmup=1, rep=5, return_mode="median"))
sys.exit(4 if "memory" in sys.argv else 0)
