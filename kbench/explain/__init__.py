"""What `kbench explain` says, a paragraph per status, flag, verdict, control and column: meaning, why, what to do.

Thresholds are those of `measure/flags.py`, which only the worker imports; a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

from kbench.comparison.verdict import Verdict
from kbench.explain.glossary import ALIASES, HEADS, WORDS

STATUSES = {
    "ok": """The output was right before timing and after it, and the provider was timed. Only these rows carry a time.
        How far to trust the time is what the row's flags say; a row without flags is as good as this machine measures.""",
    "checked": """The output was right, but the kernel ran in Triton's interpreter, which says nothing about its speed, so
        the row has no time. It is what Triton kernels get on a machine without an accelerator. Run the config on a
        machine with one to time them.""",
    "unavailable": """The provider cannot run on this machine: a package is missing or the device is of another type. The
        reason says which. It does not count as a failure. `kbench doctor` lists everything that is missing and what each
        would enable.""",
    "unsupported": """The provider declined the case, or the timer cannot time it (a function that a CUDA graph cannot
        capture, with `timer: graph`). The reason says why. It does not count as a failure, but the case was decided among
        the others: do not read an average over cases as if everyone had taken part.""",
    "wrong": """The output is not what the fp64 reference says, or changes when the same buffers get new values, or the
        inputs did not come back as they were. A wrong kernel can be as fast as it likes, so it has no time; a time that
        was taken before the fault showed is thrown away. The reason says what was found where. `kbench check` shows which
        inputs go wrong.""",
    "error": """The provider raised an exception, or may be in an installed package's plug-in that could not be imported. The
        reason holds the message and the line. Everything else of the case was measured. Call the provider by itself on
        the case's shapes to see the whole traceback.""",
    "oom": """Memory ran out, while building, checking or timing this provider, or already for the case's inputs. Check
        that nothing else uses the device (`nvidia-smi`), or make the case smaller; `kbench run --dry-run` prints
        the least memory that each case needs. `timer: graph` needs several sets of buffers and so more of it.""",
    "timeout": """A step of the provider did not end within `timeout_s` (checking, timing) or `build_timeout_s` (building)
        of the config, and its process was ended. A slow build wants a larger `build_timeout_s`; a hang in a kernel is a
        fault of the kernel. The rest of the case was measured in a fresh process.""",
    "crashed": """The worker process died, or the device stopped answering, while this provider was at work: an illegal
        memory access, a segmentation fault, a signal. The reason says which, as far as it is known. The rest of the
        case was measured in a fresh process. `compute-sanitizer` finds illegal accesses in CUDA and Triton kernels.""",
}

FLAGS = {
    "suspect": """Above what the memory can physically deliver (1.02 times the theoretical bandwidth, or, where that is not
        known, 1.02 times the session's copy bandwidth over 0.8, on a host over 0.5), and by more than data held in the
        last-level cache can explain. Either the work was not done within the timed interval (left on another stream,
        skipped, answered from memory) or the operator's byte count is wrong. Such a row never wins, and is in no mean.
        Look at what the provider does with streams, caches and lazy results before anything else.""",
    "host-bound": """The host needs longer to launch one call than the longest time for which kbench keeps the device busy
        beforehand (10 ms), so the device may have waited for the host inside the timed interval: the time is partly that
        of Python. `launch_ms` says what a launch takes. Take work out of the call (compile, allocate and look up once;
        no synchronisation), or use `timer: graph`, where the host launches nothing while the device is timed.""",
    "overhead-bound": """The case's `empty` control, what the timer itself costs, takes more than 20 % of this
        row's time. Events and launch cost a short kernel 3 to 4 us that are not its own, and kbench does not subtract
        them: GB/s is understated and all speed-ups are pulled towards 1. The order of providers still holds outside of
        ties. For the size of the difference use `timer: graph`, or a larger case.""",
    "l2-resident": """A call may have found its data in the last-level cache: the cache mode is `warm` and all that a call
        reads and writes fits there, or `timer: graph` found too few buffers to rotate over to fill the cache three times.
        GB/s is then the speed of the cache, not of the memory, and may exceed the ceiling. That is right if your program
        finds its data in the cache too; otherwise use `cache: cold`. Cold rows of the do_bench timer are not flagged:
        nothing they read is in the cache. What they write may still be there, dirty, when the call ends, so the last
        write-backs are not in the time; but the flush leaves the cache full of dirty lines of its own, which the call has
        to push out. On an H200 cold copies that fit into its 60 MB cache stay below the GB/s of large ones, even with
        the timer's own cost taken off. Elsewhere trust `copy_fraction`, where the copy has the same advantage, over GB/s.""",
    "throttled": """The device held its clocks down around at least one of the row's rounds for a reason other than being
        idle: its power limit, heat, or a power brake. The `throttle` column names the reasons; the rounds are kept. Such
        times repeat badly, and compute-bound kernels suffer more than memory-bound ones. Compare `sm_mhz` between rows,
        let the device cool, or lock its clocks (`nvidia-smi -lgc`, which needs rights).""",
    "noisy": """The medians of the rounds differ by more than 3 % ((max - min) / median, and more than 128 ns), or the 20th
        and 80th percentile of the samples lie more than 10 % of the time and more than 2 us apart. The kernel has no one
        speed here, or something else used the machine. Look for other programs on the device, raise `rounds` and
        `rep_ms`, add sessions, and do not believe differences of this size.""",
}

CONTROLS = {
    "copy": """A control that kbench adds to every case: a device copy that moves as many bytes as the operator has to.
        It is the practical ceiling at this size, and `copy_fraction` is a row's GB/s over it.""",
    "empty": """A control that kbench adds to every case: what the timer costs. On a device that is what do_bench's events
        read of a Triton kernel that does nothing, less half of what a second one adds; under `timer: graph` such a
        kernel among others; on a host, and where Triton is not installed, no work at all. It is recorded and not
        subtracted; rows of which it is more than 20 % are `overhead-bound`.""",
    "repeat": """A control that kbench adds to every case with a baseline: the baseline measured once more, as if it were
        another provider. How far the two differ is the noise: see `tie`.""",
}

_QUANTILES = """The 20th and 80th percentile over all samples of all rounds, in ms for `ms_p20` and `ms_p80`. `gbps_p20` and
    `gbps_p80` are the same as GB/s, smaller first: the slower time is the lower speed. They are the band of a picture. Wide
    apart, they make a row `noisy`."""

_STAGES = """What surrounds a kernel in a program, in ms, with `measure: {stages: true}` and an accelerator: `alloc_ms`
    for the inputs and an output from the driver, `h2d_ms` and `d2h_ms` for copying them to and from the device over
    ordinary host memory, wall time on the host, medians of five, once per case. `kernel_ms` is the row's own `ms`."""

COLUMNS = {
    "operator": """What was computed, by its name in the config. The columns between `params` and `dtype` are its axes
        and choices: with `dtype` they are the case of the row. `kbench list` shows all operators.""",
    "provider": """The implementation of the operator that the row is about, by its name in the config, or the name of a control
        (`role` tells the two apart). With its `params` it is a curve of the plots.""",
    "params": """The meta-parameters that the config gave the provider, as `num_warps=4,num_stages=2`. Empty where it
        gave none: the provider then has its own defaults.""",
    "dtype": """The type of the inputs' elements, and of the output's: float32, float16, bfloat16 or float64. A config
        may say fp16, bf16 and so on; the file always has the full name.""",
    "role": """`provider`, or `control` for the rows that kbench adds to every case: `copy`, `empty` and `repeat`. Leave
        controls out of averages over providers: `query('role == "provider"')`.""",
    "session": """The number of the fresh worker process that the row was measured in, from 0. Memory layout, clocks and
        compilation differ between processes, so a session is one trial however many samples it takes: `kbench compare`
        counts sessions.""",
    "status": """How the row ended: ok, checked, unavailable, unsupported, wrong, error, oom, timeout or crashed. Only
        `ok` rows carry a time, and all but `ok` and `checked` have a `reason`. Each status can be explained by
        itself.""",
    "reason": """Why the row has the status it has, in words: what is missing, what was wrong where, the exception with
        its place. Empty for `ok` and `checked`.""",
    "flags": """What to bear in mind about the row's time, between semicolons: suspect, host-bound, overhead-bound, l2-resident,
        throttled, noisy. A row without flags is as good as this machine measures. Each flag can be explained by itself.""",
    "ms": """The time of one call in milliseconds: the median of the rounds' medians, which are in `round_ms`. It
        includes what the timer itself costs (the case's `empty` control), which kbench records and does not
        subtract.""",
    "ms_p20": _QUANTILES,
    "ms_p80": _QUANTILES,
    "ms_min": """The shortest of all samples, in ms. Good for a look at what the kernel can do; it falls the more
        samples there are, so compare rows by `ms`.""",
    "round_ms": """The median of each round, in ms, between semicolons, in the order of the rounds. In every round each
        provider of the case has one turn, in shuffled order; how far the medians differ says whether the row is
        `noisy`.""",
    "samples": """How many timed samples the row has over all its rounds. `rep_ms` and `rounds` of the config set it.
        Samples of one process are no independent trials: add sessions, not samples, to become more certain.""",
    "launch_ms": """What the host needs to launch one call, in ms: the median of ten calls on an idle device. Where it
        exceeds `ms`, a program that calls nothing else waits for the host, whatever the kernel does. See the flag
        `host-bound`.""",
    "build_ms": """What the provider's first call took, or its factory with it, in ms: compiling, tuning, loading. It is
        in no other time. A cache of compiled kernels that was there before makes it short.""",
    "gbps": """Algorithmic bytes over `ms`, in GB/s (1e9 bytes per second): each input read once and each output written
        once, however much the provider really moves. Of the same case, more GB/s is less time, nothing else. `copy_fraction`
        sets it against a copy.""",
    "gbps_p20": _QUANTILES,
    "gbps_p80": _QUANTILES,
    "achieved_gbps": """The bytes that the provider says it moves, over `ms`, in GB/s. Only for providers that state them
        (`moved_bytes=`), such as one that passes over memory several times: it tells a slow kernel from one that has
        too much to do.""",
    "copy_fraction": """A row's GB/s over that of the case's `copy` control. Near 1 the kernel moves its bytes as fast as a copy
        would; a little above 1 is possible, as a copy is not the fastest way to move bytes at every size.""",
    "ceiling_gbps": """Copy bandwidth of the device in GB/s, once per session, at a size far beyond its last-level cache:
        what memory really delivers here. Reads and writes are both counted.""",
    "speedup": """The baseline's `ms` over the row's, in the same case and session: above 1 the row is faster. Empty without a
        baseline, or where that has no time. A difference inside the noise floor is a `tie`, which this column does not say.""",
    "max_rel_err": """The largest relative error over all elements against the fp64 reference, at the magnitude that the
        operator states. `max_ulp` is the same in units in the last place of the output dtype, which can be compared
        between dtypes.""",
    "max_ulp": """The largest error over all elements against the fp64 reference, in units in the last place of the
        output dtype at the magnitude that the operator states; `max_rel_err` is the largest relative one.""",
    "deterministic": """Whether two calls on the same input gave the same output to the bit. False is no fault by itself
        (atomics and split reductions add up in any order), but such a kernel cannot be tested by comparing bits.""",
    "alloc_ms": _STAGES,
    "h2d_ms": _STAGES,
    "kernel_ms": _STAGES,
    "d2h_ms": _STAGES,
    "timer": """What took the time: `do_bench` (an event before and after each call), `graph` (calls in a CUDA graph) or
        `clock` (on a host without Triton). Times of different timers do not compare, and `kbench compare` refuses
        to.""",
    "cache": """Whether calls found their data in the last-level cache: `cold` flushes before each call (`timer: graph`
        rotates over buffers instead), `warm` leaves what the call before it left. Use the one that is like your
        program.""",
    "device": """The name of the device that the row was measured on, as its driver tells it. Rows of different devices
        are never joined by a line, and `kbench compare` sets them side by side only with `--vary device`.""",
    "device_index": """The number of the device among those that the worker saw. With `--devices` it tells the places of
        a run apart; it may name another device after a restart, which `device_uuid` does not.""",
    "device_uuid": """The device's own identifier, as far as its driver tells one: it says which of several devices of
        the same kind made the row. All sessions of a case stay on one of them unless `--spread` is given.""",
    "sm_mhz": """The clock of the device's processors in MHz, the median of readings around the row's rounds. Rows at
        different clocks differ for that reason already. Empty where neither NVML nor amdsmi answers.""",
    "power_w": """What the device drew in watts, the median of readings around the row's rounds. Near its limit the
        clock comes down; see `throttle`. Empty where neither NVML nor amdsmi answers.""",
    "temp_c": """The temperature of the device in degrees Celsius, the median of readings around the row's rounds. Empty
        where neither NVML nor amdsmi answers.""",
    "throttle": """Every reason for which the device held its clocks down around the row's rounds, between semicolons.
        `idle` is harmless; any other makes the row `throttled`.""",
    "other_cores": """How many cores of the host other processes kept busy while the row's case was measured, in the mean.
        kbench's own processes, and what a provider starts, do not count. Where the host is what is measured, 0.1 and less
        is quiet; with more, times are longer and vary. Empty where it is not known: outside Linux, and in older files.""",
    "started_at": """When measuring the row's case began, in UTC to the second, as ISO 8601. Of a provider that took its
        worker down it is the moment when that was noticed.""",
    "case_hash": """Stands for the definition of the case: the operator's own source, its sizes, bytes and tolerance.
        Where two files differ in it, their rows are `incomparable`: not the same thing was measured.""",
    "source_hash": """Stands for the code that was measured: the file that defines the provider, and those it names as
        `sources`. Where it differs, a change of speed may be a change of the code; `--resume` and `--append` refuse to
        mix two.""",
    "env_id": """Stands for the machine that made the row: its kind of device, driver, limits and packages. The
        `.env.json` beside the CSV describes it. Equal machines share one.""",
}

ALSO_A_VERDICT = "suspect"
"""The only word of two kinds: a flag and a verdict. The paragraph on the flag explains both."""

VERDICTS = {verdict.value: verdict.explanation for verdict in Verdict if verdict != ALSO_A_VERDICT}

KINDS = {
    "status": STATUSES,
    "flag": FLAGS,
    "control": CONTROLS,
    "column": COLUMNS,
    "word": WORDS,
    "verdict": VERDICTS,
}
"""Everything that can be explained, by kind."""


class Explained(NamedTuple):
    """A paragraph, the word that it is under, and the kind of that word."""

    name: str
    kind: str
    text: str


def find(word: str) -> Explained | None:
    """The paragraph on a word as the screen or a person writes it, or None for a word that kbench does not use."""
    wanted = " ".join(word.split()).casefold()
    for head, name in HEADS:
        if head.fullmatch(wanted):
            wanted = name
    wanted = ALIASES.get(wanted, wanted)
    for kind, texts in KINDS.items():
        for name, text in texts.items():
            if name.casefold() == wanted:
                kinds = f"{kind} and verdict" if name == ALSO_A_VERDICT else kind
                return Explained(name, kinds, " ".join(text.split()))
    return None


def listing() -> dict[str, list[str]]:
    """Every word that has a paragraph, by its kind."""
    return {kind: [*texts, *([ALSO_A_VERDICT] if texts is VERDICTS else [])] for kind, texts in KINDS.items()}
