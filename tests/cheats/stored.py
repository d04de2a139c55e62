"""Cheats that return what they have computed before. Two of them gain nothing: their outputs are right."""

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("address_cache", factory=True)
def address_cache(case):
    """Remembers its output by the address of the input.

    Source: https://github.com/gpu-mode/reference-kernels/pull/102, and
    https://github.com/gpu-mode/kernelbot/pull/501
    """
    remembered = {}

    def call(x):
        if x.data_ptr() not in remembered:
            remembered[x.data_ptr()] = torch.softmax(x, -1)
        return remembered[x.data_ptr()].clone()

    return call


@softmax.provider("version_cache", factory=True)
def version_cache(case):
    """Returns its last output as long as nothing has written to the input since.

    Source: https://github.com/gpu-mode/kernelbot/pull/501
    """
    last = []

    def call(x):
        key = (x.data_ptr(), x._version)
        if not last or last[0] != key:
            last[:] = [key, torch.softmax(x, -1)]
        return last[1].clone()

    return call


@softmax.provider("fingerprint_cache", factory=True)
def fingerprint_cache(case):
    """Compares a few elements of the input with those of the last call, and returns a copy of the last output.

    Source: https://github.com/flashinfer-ai/flashinfer-bench-starter-kit/issues/21
    """
    last = []

    def call(x):
        fingerprint = x.flatten()[:4].tolist()
        if not last or last[0] != fingerprint:
            last[:] = [fingerprint, torch.softmax(x, -1)]
        return last[1].clone()

    return call


@softmax.provider("value_cache", factory=True)
def value_cache(case):
    """Compares the values of the input with those of the last call, and returns a copy of the last output.

    Source: https://github.com/flashinfer-ai/flashinfer-bench-starter-kit/issues/21
    """
    last = []

    def call(x):
        if not last or not torch.equal(last[0], x):
            last[:] = [x.clone(), torch.softmax(x, -1)]
        return last[1].clone()

    return call


@softmax.provider("changed_rows_only", factory=True)
def changed_rows_only(case):
    """Compares the input with that of the call before, and computes only the rows that have changed.

    It gains nothing: kbench changes nearly all rows before every call. Its outputs are right.

    Source: no published case; it follows from how kbench changes inputs between timed calls
    """
    last = []

    def call(x):
        if not last:
            last[:] = [x.clone(), torch.softmax(x, -1)]
        changed = (last[0] != x).any(-1).nonzero().flatten()
        last[0][changed], last[1][changed] = x[changed], torch.softmax(x[changed], -1)
        return last[1].clone()

    return call


ANSWERS = {}


@softmax.provider("known_answers")
def known_answers(x):
    """Keeps the answers to all inputs that it has ever seen, by a hash of the values: the seed is known.

    Source: https://github.com/gpu-mode/pygpubench/pull/7 (known seeds), and https://github.com/gpu-mode/reference-
    kernels/pull/142
    """
    key = hash(tuple(x[0].tolist()))
    if key not in ANSWERS:
        ANSWERS[key] = torch.softmax(x, -1)
    return ANSWERS[key].clone()


@softmax.provider("stale_memory", factory=True)
def stale_memory(case):
    """Does the work once, then returns new memory and hopes that the answer still lies there.

    Source: https://github.com/ScalingIntelligence/KernelBench/pull/82
    """
    done = []

    def call(x):
        if done:
            return torch.empty_like(x)
        done.append(True)
        return torch.softmax(x, -1)

    return call


@softmax.provider("same_memory", factory=True)
def same_memory(case):
    """Returns one buffer from every call, and writes to it again when the input changes.

    Source: CUDA-L1, https://arxiv.org/abs/2507.14111 (caching of results)
    """
    kept = []

    def call(x):
        if not kept:
            kept.append(torch.empty_like(x))
        return kept[0].copy_(torch.softmax(x, -1))

    return call


@softmax.provider("constant_output")
def constant_output(x):
    """Returns the same value everywhere, which lies within common absolute tolerances.

    Source: https://www.wafer.ai/blog/reward-hacks-field-guide (constant output)
    """
    return torch.full_like(x, 1 / x.shape[-1])
