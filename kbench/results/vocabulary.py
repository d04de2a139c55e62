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


class Status(ExplainedWord):
    """How a row ended. Only `ok` rows carry a time."""

    OK = (
        "ok",
        """The output was correct before and after timing, and the provider was timed. Only these rows carry a time. The
        row's flags are reasons to distrust it. kbench found no such reason for a row without flags. A row of a script
        has the flag `unchecked`: it was timed, but there was no reference to check it with.""",
    )
    CHECKED = (
        "checked",
        """The output was right, but the kernel ran in Triton's interpreter, which says nothing about its speed. So the row
        has no time. Triton kernels get this status on a machine without an accelerator. Run the config on a machine with
        an accelerator to time them. A call that does nothing, because its outputs are empty, may get it too: then the
        reason says that it takes less than a step of the timer's clock.""",
    )
    UNAVAILABLE = (
        "unavailable",
        """The provider cannot run on this machine: a package is missing, or the device is of another type. The reason
        says which. It does not count as a failure. `kbench doctor` lists everything that is missing and what it would
        enable.""",
    )
    UNSUPPORTED = (
        "unsupported",
        """The provider declined the case, or the timer cannot time it (for example a function that a CUDA graph cannot
        capture, with `timer: graph`). The reason says why. It does not count as a failure. An average over
        the cases of this provider then leaves out cases that averages of other providers contain.""",
    )
    WRONG = (
        "wrong",
        """The output of a check or of a timed call differs from the fp64 reference, or the provider changed an input
        without declaring it (`mutates=`). A wrong kernel gets no time, however fast it is. kbench discards times that
        it took before it found the fault. The reason says what was found and where. `kbench check` shows which inputs
        go wrong.""",
    )
    TAMPERED = (
        "tampered",
        """The provider changed something that kbench measures or judges with, or that other providers call: it replaced a
        function (a clock, `torch.cuda.Event`, a function of torch or of kbench), changed the current stream, searched the
        memory of the process for the expected output, inspected its callers, or started a process while it was timed.
        kbench put back what was changed and measured the other providers of the case as usual. The reason says what was
        changed and in which step. The row has no time and counts as a failure. A library that the provider imports may
        do the same in good faith; kbench cannot tell the difference.""",
    )
    ERROR = (
        "error",
        """The provider raised an exception, or the inputs or the reference of the operator failed on this case, or the
        installed plug-in that should define the provider could not be imported. The reason holds the message and
        the line. The other providers of the case were measured. Call the provider by itself on the case's shapes to
        see the whole traceback.""",
    )
    OOM = (
        "oom",
        """Memory ran out while kbench built, checked or timed this provider, or made the case's inputs. Check that
        nothing else uses the device (`nvidia-smi`), or make the case smaller. `kbench run --dry-run` estimates the
        memory that each case needs. `timer: graph` needs more, because it uses several sets of buffers.""",
    )
    TIMEOUT = (
        "timeout",
        """A step of the provider took longer than the config allows: `timeout_s` for checking and timing,
        `build_timeout_s` for building. kbench ended its process and measured the rest of the case in a fresh one. For a
        slow build, raise `build_timeout_s`. A kernel that hangs has a bug. After two such cases in a row kbench does not try
        the configuration again, unless `--keep-trying` is given.""",
    )
    CRASHED = (
        "crashed",
        """The worker process died, or the device stopped answering, while this provider ran: an illegal memory access, a
        segmentation fault, a signal. The reason says what is known. kbench measured the rest of the case in a fresh
        process. After two such cases in a row it does not try the configuration again, unless `--keep-trying` is given.
        `compute-sanitizer` finds illegal accesses in CUDA and Triton kernels.""",
    )

    @property
    def failed(self) -> bool:
        """Whether this outcome makes `kbench run` exit with 1."""
        return self in _FAILED

    @property
    def declined(self) -> bool:
        """Whether the provider did not take part: it cannot run on this machine, or does not support the case."""
        return self in (Status.UNAVAILABLE, Status.UNSUPPORTED)


_FAILED = frozenset({Status.WRONG, Status.TAMPERED, Status.ERROR, Status.OOM, Status.TIMEOUT, Status.CRASHED})

NOT_TIMED = "not timed: the Triton interpreter ran it"
CHECKED_REASON = f"correct, but {NOT_TIMED}"
"""What readers see as the reason of a `checked` row that has none itself."""

KERNELS_NOT_KNOWN = "its kernels are not known: "
"""The beginning of what a row's reason says if kbench could not record its kernels. It comes last in the reason."""


class Flag(ExplainedWord):
    """A reason to distrust the time of an `ok` row. The order is that in which a row lists its flags: the gravest first."""

    SUSPECT = (
        "suspect",
        """The row is faster than it can be, for one of three reasons. First, its GB/s exceed 1.02 times the theoretical
        bandwidth, and data held in the last-level cache cannot explain the excess. If the theoretical bandwidth is not
        known, kbench uses the session's copy bandwidth divided by 0.8 (on a host by 0.5). Second, its TFLOP/s exceed
        `ceiling_tflops` by a factor of 3 (a factor of 12 for dtypes of 4 bytes and more, and if an input has a shorter
        dtype than the case). Third, in every round the clock of kbench's main process shows much more time than the sum of
        the times that the timer measured for the calls. The column `reason` has the numbers. Either the work was not done
        within the timed interval (left on another stream, skipped, or replaced by a stored result), or the operator's count of
        bytes or operations is wrong. Such a row never wins, and no mean includes it. First look at what the provider does
        with streams, caches and lazy results.""",
    )
    UNCHECKED = (
        "unchecked",
        """The row comes from a benchmark script, which has no reference. kbench timed the function that the script gives to
        `do_bench`, and does not know whether it computes the right thing. kbench also could not change the inputs before
        each call, because the script does not say which they are. The column `agreement` says whether the function returns
        the same as that of the baseline. To have the output checked, write an operator with a reference: `kbench init`
        writes a file to begin with.""",
    )
    SAME_OPS = (
        "same-ops",
        """The provider runs the same PyTorch operators as the baseline, in the same order, and nothing else that PyTorch
        sees. So it is the baseline under another name: its time is right, but it is not the time of another kernel. The
        reason names the baseline and the operators. kbench records the operators of one untimed call in each case,
        whichever function of torch calls them, and leaves out allocations and views. Kernels in Triton or CUDA are not
        operators. A provider that falls back to torch for some shapes has the flag in the cases of these shapes. `kbench
        judge` does not trust a provider with this flag.""",
    )
    HOST_BOUND = (
        "host-bound",
        """kbench keeps the device busy while the host launches a call, but for at most 10 ms. The launches of this row take
        longer. So the device may have waited for the host inside the timed interval, and the time is partly that of Python.
        `launch_ms` is the time of a launch. Take work out of the call: compile, allocate and look up once, and do not
        synchronise. Or use `timer: graph`, where the host launches nothing while the device is timed.""",
    )
    OVERHEAD_BOUND = (
        "overhead-bound",
        """The timer's own overhead (the case's `empty` control) is more than 20 % of this row's time. Events and the launch
        add 3 to 4 us to a short kernel, and kbench does not subtract them. So GB/s is too low, and all speed-ups are
        pulled towards 1. The order of providers still holds, except for ties. Use `timer: graph` or a larger case to
        measure the size of the difference.""",
    )
    L2_RESIDENT = (
        "l2-resident",
        """A call may have found its data in the last-level cache. Either the cache mode is `warm` and everything that a
        call reads and writes fits there, or all buffers of `timer: graph` together are smaller than three times the
        cache. GB/s is then the speed of the cache, not of the memory, and may exceed the ceiling. Such a time is
        right for a program that also finds its data in the cache; otherwise use `cache: cold`. Cold rows of the
        do_bench timer have no such flag, because nothing that they read is in the cache. Two smaller effects remain. The
        last writes may still be in the cache when the call ends, which makes the time shorter. And the flush leaves dirty
        lines in the cache, which the call has to push out, so the time is longer. On an H200 the second effect is larger:
        cold copies that fit into its 60 MB cache stay below the GB/s of large ones. On other devices trust
        `copy_fraction` more than GB/s, because both effects change the copy, too. Rows of a host never have this flag.""",
    )
    THROTTLED = (
        "throttled",
        """The device lowered its clocks around at least one of the row's rounds, because of its power limit, heat or a
        power brake, and not because it was idle. The `throttle` column names the reasons. kbench keeps the rounds. Such
        times are hard to reproduce, and compute-bound kernels suffer more than memory-bound ones. Compare `sm_mhz`
        between rows, let the device cool, or lock its clocks (`nvidia-smi -lgc`, which needs administrator rights).""",
    )
    NOISY = (
        "noisy",
        """The times vary too much: the medians of the rounds differ by more than 3 % ((max - min) / median) and by
        more than 128 ns, or the distance between the 20th and the 80th percentile of the samples exceeds both 10 % of
        the row's time and 2 us. The kernel has no single speed here, or something else used the machine. Look for
        other programs on the device, raise `rounds` and `rep_ms`, add sessions, and do not believe differences of
        this size.""",
    )
    ALTERED_STATE = (
        "altered-state",
        """The provider changed settings of the whole process, such as TF32, the default dtype, autocast or the number of
        threads. The reason names them. After each step kbench sets them back, so that no other provider computes or is
        timed with them. Settings of torch that affect how the provider computes are set again before its next
        step, so its time is the time with them. In your program they would affect everything that runs afterwards. Let
        the provider set them for its own call only.""",
    )


class Agreement(enum.StrEnum):
    """How the output of a script's line compares with that of the baseline. The column `agreement` explains the words."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"


NO_TENSORS = "returns something other than a tensor or a tuple of tensors"
"""Why an output is not comparable, if the closure returns nothing, a number, a dict, or a tuple with None in it."""


CALL_ORDER = "order"
"""The axis of the cases of `kbench exec`: the number of a provider's call."""


class Noticed(enum.StrEnum):
    """What kbench noticed in a call of a script's closure. The column `noticed` explains the words."""

    COPIES_INPUT = "copies-input"
    COPIES_FROM_HOST = "copies-from-host"
    DRAWS_RANDOM = "draws-random"
    WAITS = "waits"
    ALLOCATES = "allocates"
    REUSES_MEMORY = "reuses-memory"
    GRAPH = "do_bench_cudagraph"
    SAME_AS = "same-as"


class Role(ExplainedWord):
    """Whose row it is."""

    PROVIDER = ("provider", "A row of an implementation that the config asks for.")
    CONTROL = ("control", "A row that kbench adds to every case: `copy`, `empty` or `repeat`.")


class Control(ExplainedWord):
    """The rows that kbench adds to a case. They come after the providers, in this order."""

    COPY = (
        "copy",
        """A control that kbench adds to every case: a device copy of as many bytes as the operator has to move. It is the
        practical ceiling at this size. `copy_fraction` is a row's GB/s divided by the GB/s of the copy. A benchmark
        script that counts no bytes has no copy.""",
    )
    EMPTY = (
        "empty",
        """A control that kbench adds to every case: the timer's own overhead. On a device with do_bench it is the
        time that the events read around an empty Triton kernel, minus the time for which this kernel itself runs. kbench
        estimates the time of the kernel itself as half of what a second empty kernel adds; the other half is the gap
        between the two. With `timer: graph` it
        is the time per kernel in a graph of empty kernels, and with `timer: cupti` the time of an empty kernel. On a
        host, and where Triton is not installed, it is the
        time of a call that does nothing. kbench measures it once per session, records it in every case, and does not
        subtract it. If it is more than 20 % of a row's time, the row is `overhead-bound`.""",
    )
    REPEAT = (
        "repeat",
        """A control that kbench adds to every case with a baseline: the baseline measured once more, as if it were another
        provider. The difference between the two is noise: see `tie`.""",
    )


class EdgeInput(ExplainedWord):
    """The edge inputs of `kbench check` that kbench's own operators declare, and those of operators that declare none."""

    LARGE_OFFSET = (
        "large offset",
        """A large constant is added to every value. A kernel that does not subtract the maximum or the mean overflows or
        loses digits.""",
    )
    ASCENDING_ROWS = "ascending rows", "Each row is sorted upwards. A running maximum changes at every step."
    WIDE_RANGE = (
        "wide range",
        """The values are 30 times as large (3 times with gradients). Most results are then close to 0 or 1.""",
    )
    LARGE_POSITIVE = "large positive", "All values are positive and around 1000. An exponential of them overflows."
    LARGE_NEGATIVE = (
        "large negative",
        """All values are negative and around -1000. The result is 0, and must not be NaN.""",
    )
    TINY = (
        "tiny",
        """The values are a thousandth of the usual ones. A kernel that subtracts nearly equal numbers loses their digits.""",
    )
    ZEROS = "zeros", "An input is 0 everywhere. A division by its norm or variance must not make NaN."
    LARGE_VALUES = (
        "large values",
        """Values of float16 whose squares are too large for float16. A kernel must compute in float32.""",
    )
    MINUS_INF_HEAD = (
        "head of -inf",
        """Most of each row is -inf, from its first column on, as padding on the left makes it. A kernel that takes a row
        in blocks finds no maximum in the first ones.""",
    )
    MINUS_INF_TAIL = "tail of -inf", "The last quarter of each row is -inf, as a mask makes it."
    MINUS_INF_ROW = "row of -inf", "One row is -inf everywhere, so its softmax is NaN. The other rows must not change."
    MINUS_INF_COLUMN = (
        "column of -inf",
        """One column is -inf everywhere. A row whose label is in it has an infinite loss.""",
    )
    PLUS_INF = (
        "one +inf",
        """One element is +inf. The result must be what the reference gives: NaN or infinite at the right places only.""",
    )
    NAN = (
        "one NaN",
        """One element is NaN. It must reach the results that depend on it, and no others. A maximum that drops NaN fails
        here.""",
    )
    STRIDED_ROWS = (
        "strided rows",
        """The rows have gaps between them in memory, and rows after the first are not aligned. A kernel that takes the row
        length for the stride fails here.""",
    )
    TRANSPOSED = (
        "transposed",
        """The matrix is a transposed view: neighbours in a row are far apart in memory. A kernel that never looks at
        strides fails here.""",
    )
    ODD_COLUMNS = (
        "odd columns",
        """The last size is odd: one column is left out if it was even. A kernel without a mask, or with vector loads
        across the end of a row, fails here.""",
    )
    ONE_ROW = "one row", "Only the first row is left."
    ONE_COLUMN = "one column", "Only the first column is left: each row has one element."
    NO_ROWS = "no rows", "The matrix has no rows. A kernel must return an empty result, and launch no empty grid."
    NO_COLUMNS = "no columns", "The rows have no elements. A kernel must return an empty result."
    SMALLEST_INTEGERS = (
        "smallest integers",
        """An input of integers, such as labels, holds only the smallest number that it may hold.""",
    )
    LARGEST_INTEGERS = (
        "largest integers",
        """An input of integers, such as labels, holds only the largest number that it may hold.""",
    )
    ODD_OFFSET = (
        "odd offset",
        """All inputs are contiguous, and each begins one element into its memory, as `buffer[1:].view(M, N)` does. A kernel
        that reads 16 bytes at a time fails here unless it looks at the address first.""",
    )
    STRIDED_GRADIENTS = (
        "strided gradients",
        """The received gradient has gaps between its rows in memory, as the gradient of `torch.cat` has.""",
    )
    EXPANDED_GRADIENTS = (
        "expanded gradients",
        """All rows of the received gradient are the same memory, as the gradient of a sum is.""",
    )
