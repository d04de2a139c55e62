"""The words that cells of a results file hold: statuses, flags, roles and controls, each with its explanation.

`kbench explain` and docs/reference print the explanations. Thresholds in them are those of measure/flags.py and
measure/timing; a test compares them.
"""

from __future__ import annotations

import enum
from typing import Self


class ExplainedWord(enum.StrEnum):
    """A word and its explanation: what it means, why it matters, what to do. A member is written as its word."""

    explanation: str

    def __new__(cls, word: str, explanation: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.explanation = " ".join(explanation.split())
        return member


# fmt: off
class Status(ExplainedWord):
    """How a row ended. Only `ok` rows carry a time."""

    OK = "ok", """The output was correct before and after timing, and the provider was timed. Only these rows carry a time.
        The row's flags are reasons to distrust it."""
    CHECKED = "checked", """The output was right, but the kernel ran in Triton's interpreter, which says nothing about its
        speed. So the row has no time. Run the config on a machine with an accelerator to time it. A call that does nothing,
        because its outputs are empty, may get this status too."""
    UNAVAILABLE = "unavailable", """The provider cannot run on this machine: a package is missing, or the device is of another
        type. It does not count as a failure. `kbench doctor` lists everything that is missing and what it would enable."""
    UNSUPPORTED = "unsupported", """The provider declined the case, or the timer cannot time it (a function that a CUDA graph
        cannot capture, with `timer: graph`). It does not count as a failure. An average over the cases of this provider then
        leaves out cases that averages of other providers contain."""
    WRONG = "wrong", """The output of a check or of a timed call differs from the fp64 reference, or the provider changed an
        input without declaring it (`mutates=`). A wrong kernel gets no time, however fast it is. `kbench check` shows which
        inputs go wrong."""
    TAMPERED = "tampered", """The provider changed something that kbench measures or judges with, or that other providers
        call: it replaced a function (a clock, a function of torch or of kbench), changed the current stream, searched the
        memory of the process for the expected output, inspected its callers, or started a process while it was timed.
        kbench put back what was changed. A library that the provider imports may do the same in good faith; kbench cannot
        tell the difference."""
    ERROR = "error", """The provider raised an exception, or the inputs or the reference of the operator failed on this case,
        or the plug-in that should define the provider could not be imported. The reason holds the message and the line.
        Call the provider by itself on the case's shapes to see the whole traceback."""
    OOM = "oom", """Memory ran out while kbench built, checked or timed this provider, or made the case's inputs. Check that
        nothing else uses the device (`nvidia-smi`), or make the case smaller. `kbench run --dry-run` estimates the
        memory that each case needs. `timer: graph` needs more."""
    TIMEOUT = "timeout", """A step of the provider took longer than the config allows: `timeout_s` for checking and timing,
        `build_timeout_s` for building. kbench ended its process and measured the rest of the case in a fresh one. After two
        such cases in a row kbench does not try the configuration again in this run."""
    CRASHED = "crashed", """The worker process died, or the device stopped answering, while this provider ran: an illegal
        memory access, a segmentation fault, a signal. kbench measured the rest of the case in a fresh process. After two such
        cases in a row it does not try the configuration again in this run. `compute-sanitizer` finds illegal accesses."""

    @property
    def failed(self) -> bool:
        """Whether this outcome makes `kbench run` exit with 1."""
        return not self.declined and not self.right

    @property
    def right(self) -> bool:
        """Whether the provider took part, and nothing was wrong."""
        return self in (Status.OK, Status.CHECKED)

    @property
    def declined(self) -> bool:
        """Whether the provider did not take part: it cannot run on this machine, or does not support the case."""
        return self in (Status.UNAVAILABLE, Status.UNSUPPORTED)


NOT_TIMED = "not timed: the Triton interpreter ran it"
CHECKED_REASON = f"correct, but {NOT_TIMED}"
"""What readers see as the reason of a `checked` row that has none itself."""

KERNELS_NOT_KNOWN = "its kernels are not known: "
"""The beginning of what a row's reason says if kbench could not record its kernels. It comes last in the reason."""


class Flag(ExplainedWord):
    """A reason to distrust the time of an `ok` row. The order is that in which a row lists its flags: the gravest first."""

    SUSPECT = "suspect", """The row is faster than it can be, and never wins. First, its GB/s may exceed 1.02 times the
        theoretical bandwidth (if that is not known: the session's copy bandwidth divided by 0.8, on a host by 0.5), and data
        in the last-level cache cannot explain it. Second, its TFLOP/s may exceed `ceiling_tflops` by a factor of 3 (a factor
        of 12 for dtypes of 4 bytes and more, and if an input has a shorter dtype than the case). Third, another process may
        contradict its time, or what is said of a baseline (`kbench judge` only). The reason has the numbers. Either the work
        was not done within the timed interval (left on another stream, skipped, or replaced by a stored result), or the
        operator's count of bytes or operations is wrong, or the process of the provider makes false claims."""
    UNCHECKED = "unchecked", """The row comes from a benchmark script, which has no reference. kbench timed the function that
        the script gives to `do_bench`, and does not know whether it computes the right thing. The column `agreement` says
        whether it returns the same as the baseline. To have the output checked, write an operator with a reference: `kbench
        init` writes a file to begin with."""
    SAME_OPS = "same-ops", """The provider runs the same PyTorch operators as the baseline, in the same order, and nothing
        else that PyTorch sees: it is the baseline under another name. More operators change nothing if their results hold
        less than 1 % of the bytes of the baseline's largest one. kbench records the operators of one untimed call in each
        case, without allocations and views. Kernels in Triton or CUDA are not operators. A provider that falls back to torch
        for some shapes has the flag in the cases of these shapes. `kbench judge` does not trust such a provider."""
    WEAK_CHECK = "weak-check", """The checks of the row show little. Either the reference returns the same output for three
        draws of the inputs, so that a constant passes (it may ignore its input, as a layer with zero weights does; operators
        such as `zeros_like` do so by definition). Or the tolerance of another benchmark's problem is as large as its outputs,
        so kbench judged by a stricter one. The reason says which. `kbench judge` does not trust a provider if all of its rows
        have this flag."""
    EAGER = "eager", """`torch.compile` runs the provider's function uncompiled in this case. It has compiled it for other
        cases as often as it may, by default 8 times (`torch._dynamo.config.recompile_limit`), and nothing of that fits here.
        Which cases are eager depends on their order. The reason names the function. Compile it with `dynamic=True`, or give
        each case a copy of the function: `kbench explain dynamic-shapes` has the line."""
    DYNAMIC_SHAPES = "dynamic-shapes", """`torch.compile` runs a kernel for several sizes in this case. By default it does so
        from the second size on, and only the first case has a kernel of its own. The kernel may be slower than one for this
        size alone. That is right for a program whose sizes vary. Otherwise compile a copy of the function for each case: a
        provider with `factory=True` returns
        `torch.compile(types.FunctionType(function.__code__.replace(), globals()), dynamic=False)`."""
    HOST_BOUND = "host-bound", """kbench keeps the device busy while the host launches a call, but for at most 10 ms. The
        launches of this row take longer (`launch_ms`). So the time is partly that of Python. Take work out of the call:
        compile, allocate and look up once, and do not synchronise. Or use `timer: graph`."""
    OVERHEAD_BOUND = "overhead-bound", """The timer's own overhead (the case's `empty` control) is more than 20 % of this row's
        time. kbench does not subtract it, so GB/s is too low, and all speed-ups are pulled towards 1. The order of providers
        still holds, except for ties. Use `timer: graph` or a larger case to measure the size of the difference."""
    L2_RESIDENT = "l2-resident", """A call may have found its data in the last-level cache: the cache mode is `warm` and
        everything that a call reads and writes fits there, or all buffers of `timer: graph` together are smaller than three
        times the cache. GB/s is then the speed of the cache, and may exceed the ceiling. That is right for a program that
        also finds its data in the cache; otherwise use `cache: cold`. Rows of a host never have this flag."""
    THROTTLED = "throttled", """The device lowered its clocks around at least one of the row's rounds, because of its power
        limit, heat or a power brake. The `throttle` column names the reasons. Such times are hard to reproduce. Compare
        `sm_mhz` between rows, let the device cool, or lock its clocks (`--lock-clocks`)."""
    NOISY = "noisy", """The times vary too much: the medians of the rounds differ by more than 3 % ((max - min) / median) and
        by more than 128 ns, or the distance between the 20th and the 80th percentile of the samples exceeds both 10 % of
        the row's time and 2 us. The kernel has no single speed here, or something else used the machine. Look for
        other programs on the device, raise `rounds` and `rep_ms`, or add sessions."""
    ALTERED_STATE = "altered-state", """The provider changed settings of the whole process, such as TF32, the default dtype,
        autocast or the number of threads. The reason names them. kbench sets them back after each step, so that no other
        provider is timed with them. In your program they would affect everything that runs afterwards. Let the provider set
        them for its own call only."""


class Agreement(enum.StrEnum):
    """How the output of a script's line compares with that of the baseline. The column `agreement` explains the words."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"


NO_TENSORS = "returns something other than a tensor or a tuple of tensors"
"""Why an output is not comparable, if the closure returns nothing, a number, a dict, or a tuple with None in it."""

CALL = "call"
"""The parameter of a script's line that calls do_bench more than once: the number of the call, from 1."""

CALL_ORDER = "order"
"""The axis of the cases of `kbench exec`: the number of a provider's call."""


class Noticed(enum.StrEnum):
    """What kbench noticed in a call of a script's closure. The column `noticed` explains the words."""

    COPIES_INPUT = "copies-input"
    COPIES_FROM_HOST = "copies-from-host"
    DRAWS_RANDOM = "draws-random"
    WAITS = "waits"
    LAUNCHES_NOTHING = "launches-nothing"
    ALLOCATES = "allocates"
    REUSES_MEMORY = "reuses-memory"
    WARM = "warm"
    DIVIDED = "divided-by"
    TENSOR_BYTES = "tensor-bytes"
    SAME_AS = "same-as"


class Role(enum.StrEnum):
    """Whose row it is: that of an implementation that the config asks for, or one that kbench adds to every case."""

    PROVIDER = "provider"
    CONTROL = "control"


class Control(ExplainedWord):
    """The rows that kbench adds to a case. They come after the providers, in this order."""

    COPY = "copy", """A control that kbench adds to every case: a device copy of as many bytes as the operator has to move. It
        is the practical ceiling at this size. `copy_fraction` is a row's GB/s divided by the GB/s of the copy. A benchmark
        script that counts no bytes has no copy."""
    EMPTY = "empty", """A control that kbench adds to every case: the timer's own overhead, measured once per session and not
        subtracted. On a device it is the time that the events read around an empty Triton kernel, minus the time for which
        this kernel itself runs (half of what a second empty kernel adds). With `timer: graph` it is the time per kernel in a
        graph of empty kernels, and with `timer: cupti` the time of an empty kernel. On a host, and without Triton, it is the
        time of a call that does nothing. If it is more than 20 % of a row's time, the row is `overhead-bound`."""
    REPEAT = "repeat", """A control that kbench adds to every case with a baseline: the baseline measured once more, as if it
        were another provider. The difference between the two is noise: see `tie`."""


class EdgeInput(ExplainedWord):
    """The edge inputs of `kbench check` that kbench's own operators declare, and those of operators that declare none."""

    LARGE_OFFSET = "large offset", "A large constant is added to every value: the maximum or the mean must be subtracted first."
    ASCENDING_ROWS = "ascending rows", "Each row is sorted upwards. A running maximum changes at every step."
    WIDE_RANGE = "wide range", "The values are 30 times as large (3 times with gradients). Most results are close to 0 or 1."
    LARGE_POSITIVE = "large positive", "All values are positive and around 1000. An exponential of them overflows."
    LARGE_NEGATIVE = "large negative", "All values are negative and around -1000. The result is 0, and must not be NaN."
    TINY = "tiny", """The values are a thousandth of the usual ones: a difference of nearly equal numbers loses their
        digits, and the epsilon of a norm matters."""
    ZEROS = "zeros", "An input is 0 everywhere. A division by its norm or variance must not make NaN."
    LARGE_VALUES = "large values", "The squares of the values are too large for float16: a kernel must compute in float32."
    MINUS_INF_HEAD = "head of -inf", "Most of each row is -inf, from its first column on, as padding on the left makes it."
    MINUS_INF_TAIL = "tail of -inf", "The last quarter of each row is -inf, as a mask makes it."
    MINUS_INF_ROW = "row of -inf", "One row is -inf everywhere, so its softmax is NaN. The other rows must not change."
    MINUS_INF_COLUMN = "column of -inf", "One column is -inf everywhere. A row whose label is in it has an infinite loss."
    PLUS_INF = "one +inf", "One element is +inf. The result must be NaN or infinite where the reference is, and nowhere else."
    NAN = "one NaN", "One element is NaN. It must reach the results that depend on it, and no others."
    STRIDED_ROWS = "strided rows", """The rows have gaps between them in memory, and rows after the first are not aligned.
        Call `x.contiguous()`, use the strides, or raise `kbench.Unsupported`."""
    TRANSPOSED = "transposed", "The matrix is a transposed view: neighbours in a row are far apart in memory."
    ODD_COLUMNS = "odd columns", "The last size is odd: a kernel needs a mask, and no vector loads across the end of a row."
    ONE_ROW = "one row", "Only the first row is left."
    ONE_COLUMN = "one column", "Only the first column is left: each row has one element."
    NO_ROWS = "no rows", "The matrix has no rows. A kernel must return an empty result, and launch no empty grid."
    NO_COLUMNS = "no columns", "The rows have no elements. A kernel must return an empty result."
    SMALLEST_INTEGERS = "smallest integers", "An input of integers, such as labels, holds only its smallest number."
    LARGEST_INTEGERS = "largest integers", "An input of integers, such as labels, holds only its largest number."
    ODD_OFFSET = "odd offset", """All inputs are contiguous, and each begins one element into its memory, as
        `buffer[1:].view(M, N)` does. A kernel that reads 16 bytes at a time has to look at the address first."""
    HUGE_STRIDE = "huge stride", """The last row begins more than 2^31 elements after the first: offsets need 64 bits. Only on a
        CUDA device with enough memory."""
    STRIDED_GRADIENTS = "strided gradients", "The received gradient has gaps between its rows, as that of `torch.cat` has."
    EXPANDED_GRADIENTS = "expanded gradients", "All rows of the received gradient are the same memory, as that of a sum is."
# fmt: on
