"""What `kbench explain` says: a paragraph for each status, flag, control, edge input, column, verdict and word.

Every word is explained where it is declared: statuses, flags, controls and edge inputs in results/vocabulary.py,
columns in results/row.py, verdicts in comparison/verdict.py, all other words in WORDS below.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kbench.comparison.verdict import Verdict
from kbench.results.row import COLUMNS
from kbench.results.vocabulary import Control, EdgeInput, Flag, Status

WORDS = {
    "us": """Microseconds: a millionth of a second. Tables in the terminal show times in us. Results files have
        milliseconds (`ms`). 1 ms is 1000 us.""",
    "fastest": """The provider with the shortest time of the case, marked `*`. `~` marks the providers that
        share the first place: see `tie`. `?` says that the measurements do not tell which provider is fastest. A column
        `fastest` holds the number of cases that a provider wins alone; a column `tied` holds the number of cases in
        which it shares the first place.
        Providers that are suspect, wrong or not timed are left out.""",
    "faster/tie/slower": """Three counts of cases: how many times the provider is faster than the baseline, ties with
        it, and is slower. A fourth number counts the cases in which the measurements do not tell which is faster.""",
    "tie": """The measurements show that two times are closer than the noise floor, or closer than 2 %. A tie is
        neither a win nor a loss. If the rounds disagree too much to show that, the result is `unclear`. More rounds,
        a longer `rep_ms` and more sessions show smaller differences.""",
    "noise floor": """How much two measurements of the same code differ here. kbench measures the baseline a second
        time in every case of a run, as the control `repeat`. The difference of a case is the median over its rounds, or
        over its sessions if it has several. In 95 % of the cases, this difference stays within the floor. A smaller
        difference says nothing about the code. To lower the floor, stop other programs on the machine, and add rounds
        and sessions.""",
    "baseline": """The provider that speed-ups compare with: the one that the config names as `baseline:`, or else its first.
        A speed-up of 2 says that the baseline takes twice as long.""",
    "configuration": """A provider with values for its parameters, such as `triton-row[num_warps=4]`: one line of a plot. A
        config that gives a parameter several values measures one configuration for each of them. `--only` takes such names.""",
    "case": """One point of the sweep: a value for each axis, scalar and choice, a mode and a dtype. All providers of a case are
        measured together on the same inputs and the same device, in shuffled order, so their times can be compared.""",
    "row": """One line of a results file: the outcome of one configuration, or of a control, on one case in one session. In
        `kbench compare`, a row is one configuration on one case, with all sessions of both files.""",
    "round": """One pass over all providers of a case, in shuffled order. A row's `ms` is the median over the rounds
        of each round's median time; `round_ms` holds the medians of all rounds. A slow change of the machine affects
        all providers alike.""",
    "sweep": """The cases of a config: every combination of the values that its section `sweep:` gives the axes, the scalars,
        the choices, the mode and the dtype. `--set N=1024,4096` replaces the values of one axis. `--dry-run` prints the
        cases and stops.""",
    "salt": """The elements of the inputs that kbench replaces before a timed call. Their new values come from another
        random draw of the inputs. Every timed call gets another salt, so a provider that returns a stored result is
        `wrong`. docs/checking.md says which elements change.""",
    "profile": """A named part of a config that replaces some of its values: `--profile quick`. kbench applies the
        profile `cpu` automatically on a machine without an accelerator; `--profile none` turns that off.""",
    "plug-in": """A Python file with operators or providers of your own: `--plugin FILE`, or `plugins:` in a config. Installed
        packages announce theirs under the entry point group `kbench.plugins`. `kbench init` writes one to begin with.""",
    "control": """A row that kbench adds to every case automatically: `copy`, `empty` and `repeat`. Controls tell what the
        machine can do, what the timer costs and how noisy the machine is. `kbench explain` has a paragraph on each
        control.""",
    "ceiling": """The practical limit for a memory-bound kernel: the speed of a plain copy of the same number of bytes. The
        control `copy` measures it in every case. Pictures draw it as a grey line, and the theoretical bandwidth as a
        dashed line. For a compute-bound kernel it is the speed of the best large matrix product: see `ceiling_tflops`.""",
    "verdict": """What `kbench compare` says of a row: slower, faster, same, unclear, missing, new, failed, fixed,
        suspect, incomparable or untimed. `kbench explain` has a paragraph on each verdict; docs/comparing.md
        describes the rules behind them.""",
    "change": """What `kbench compare` finds between two sides: the new time divided by the old time, as a percentage
        of change. +5.0% means that the new side takes 5 % longer. kbench takes the drift of the machine out, so the
        change may differ a little from the quotient of the two times beside it.""",
    "interval": """The range that the true change lies in, with 95 % confidence: [+4.6, +6.1] means a change between
        4.6 % and 6.1 %. It is narrow where the sessions of both sides agree. More sessions make it narrower. With one session
        on a side, nothing is known about its confidence: the interval is then at least 3 % to both sides.""",
    "margin": """The smallest change that matters: 2 %, or what `--margin` says. A change that is certainly smaller is
        `same`. kbench can show this only if the interval is narrow enough to lie within the margin.""",
    "drift": """How much slower or faster the machine itself became between two files. The `copy` controls show it, and the
        baseline if its code is the same on both sides. `kbench compare` subtracts the drift from the changes if at least 5
        cases show it. A kernel may drift by more or by less than these two: by as much as the one that drifted most. A
        change is slower or faster only if its whole interval lies beyond that. If it is more than the margin, no row is
        `same`.""",
    "q": """The lowest false discovery rate at which the row still counts as changed. A small q means that chance alone rarely
        makes such a change. q is corrected for the number of rows. `kbench compare` calls a row slower or faster if
        q is 0.01 or less.""",
    "geomean": """The geometric mean of ratios of times over rows: the usual mean for ratios, because twice as fast
        and half as fast cancel. Rows that fail or are suspect are left out on both sides. If the results have a column
        `weight`, each row counts as often as its case occurs, and the mean is called weighted.""",
    "model axes": """Which dimension of a language model gives each axis of an operator its size. A sweep with `model` and
        `tokens` gets its sizes from them: `model: llama-3-8b, tokens: [1, 4096]`. The dimensions are in
        docs/reference/config.md.""",
    "gate": """The verdicts for which `kbench compare` exits with code 1, for a CI job: `--fail-on slower,missing,failed`.
        Without the option, no verdict makes the command fail.""",
    "old": """The reference side of a comparison: the first file. `LABEL=FILE`
        gives a file a name for the report. The other side is `new`. Both columns show times, or the values
        of `--metric`.""",
    "input": """A kind of input that `kbench check` gives every provider: random numbers, and the operator's edge
        inputs, such as `tail of -inf`, `one NaN`, `strided rows` or `no rows`. `M=1` is an input whose axis M has the size 1.
        With `M=odd` it has an odd size, about half of that of the case. Each cell says `ok` with the largest error, or says
        what went wrong.""",
    "can run": """Whether a provider can run on this machine, or what is missing. `checked only` stands for a Triton
        kernel on a machine without an accelerator: Triton's interpreter shows whether it is right, but not how fast
        it is.""",
    "parameters": """The parameters of a provider that a config can sweep, with their defaults. `auto` means that the
        provider chooses the value. In a config: `- triton-row: {num_warps: [4, 8]}` measures both values.""",
    "config": """A YAML file that says what to measure: an operator, its sweep, the providers and how to measure. Some are built
        in and run by name: `kbench run softmax`. `kbench list` shows them, `kbench init` writes one to change.""",
    "MB per call": """The size of all tensors of one call, inputs and outputs, in megabytes (1e6 bytes). In the modes `backward`
        and `full` these include the gradients.""",
    "MB needed": """About the least memory that kbench takes for a case, in megabytes (1e6 bytes): five times the tensors of a
        call, for four sets of inputs, three of outputs and the buffers of the copy control. Where memory is free, kbench also
        keeps the float64 values of the reference; otherwise it computes them again for each check. `timer: graph` needs more,
        and so does a reference or a provider with intermediate results that are larger than the tensors, such as the scores
        of attention. A case that does not fit becomes `oom`.""",
    "axes": """The sizes of an operator's tensors, such as M and N: whole numbers. A config must give values for each of them.
        Each axis is a column of the results.""",
    "scalars": """The numbers and booleans of an operator, such as `eps` and `causal`, with their defaults. A config can sweep
        them: `eps: [1e-6, 1e-5]`, `causal: [true, false]`. Each scalar is a column of the results, and rows that differ
        in one are different cases. A provider that does not take a scalar is `unsupported` in
        cases in which the scalar does not have its default.""",
    "choices": """The parameters of an operator whose values are words, such as `approximate`, with the words that each
        allows. The first word is the default. A config can sweep them: `approximate: [tanh, none]`. Each choice is a column
        of the results.""",
    "mode": """What a call computes: `forward` the outputs, `backward` the gradients of the inputs, `full` both in one call.
        Only operators that declare gradients have modes. A config can sweep them: `mode: [forward, backward, full]`. `mode`
        is a column of the results, and rows that differ in it are different cases.""",
    "expected on": """The device that a case would go to if all cases took the same time. A run gives each case to the
        device that is free first, so the real order may differ. `--dry-run` shows this column with `--devices` or
        `--scheduler`.""",
    "judgement": """What `kbench judge` says of a kernel. `pass`: it is right and trusted. `better`: it is also shown to be
        faster than a champion. No pass are `not-better`, `wrong`, `not-trusted`, `too-slow` (for `--min-speedup`) and
        `unknown` (`not-checked`, or `speed-unknown`). `kbench judge --help` has the exit codes, and `kbench schema judge` the
        keys of the JSON.""",
    "trust": """Whether the time of a kernel can be believed. `kbench judge` says `no` if a row is `tampered`, `suspect` or
        `same-ops`, or if all rows are `weak-check`, and `unknown` if the kernel has no time. Each of these words has a
        paragraph.""",
    "champion": """The best kernel so far, in the file that `kbench judge --champion` names. At most two sessions screen a
        candidate: it has lost if it is less than 0.5 % faster. Fresh sessions with other inputs then confirm that it is better,
        and their mean is the speed beside the champion.""",
    "ledger": """The folder of `kbench judge --ledger`: the results of all candidates, for one champion after the other. The
        probability that any of them is called better without being faster is at most 5 %. Each confirmation spends a part of
        that, so a later one needs more sessions. Delete none of its files.""",
    "factory": """`factory=True` makes a provider a function of the case: kbench calls it once for each case, untimed, and then
        times the function that it returns. It reads a size as `case.N`, the dtype as `case.dtype`, and a scalar as
        `case.eps`.""",
    "found": """What `kbench doctor` sees of the machine: the device, the driver, the library that reads the clocks,
        and the versions of packages. The same facts are in the `.env.json` beside every results file.""",
}
"""By word, a paragraph: what it means, why it matters, what to do."""

ALIASES = {
    "agreement": ("agrees",),
    "axes": ("axis",),
    "alloc_ms": ("allocate",),
    "cache": ("cold", "warm", "cache cold", "cache warm"),
    "change": ("time", "launch time", "shortest time", "speed", "traffic", "throughput"),
    "champion": ("better", "not-better", "candidate"),
    "choices": ("choice",),
    "config": ("built in: kbench run config",),
    "configuration": ("curve",),
    "copy_fraction": ("of copy", "share of a copy's speed"),
    "d2h_ms": ("device to host",),
    "drift": ("machine drift",),
    "faster/tie/slower": ("faster/tie/slower/?",),
    "fastest": ("*", "tied"),
    "gbps": ("gb/s",),
    "h2d_ms": ("host to device",),
    "input": ("random", "edge input"),
    "interval": ("95% interval", "±95%", "95 %", "95%", "ci"),
    "judgement": ("judge", "pass", "too-slow", "unknown", "not-checked", "speed-unknown"),
    "kernel_ms": ("kernel",),
    "max_ulp": ("ulp",),
    "mode": ("forward", "backward", "full"),
    "noise floor": ("noise",),
    "plug-in": ("plugin",),
    "scalars": ("scalar",),
    "sol": ("speed of light",),
    "speedup": ("speed-up",),
    "tflops": ("tflop/s", "gflop/s", "best tflop/s", "best gflop/s"),
    "tie": ("~",),
    "timer": ("do_bench", "graph", "cupti"),
    "trust": ("trusted", "not-trusted"),
    "unclear": ("?",),
    "unsupported": ("declined",),
}
"""By the word whose paragraph explains them: its synonyms, in small letters."""

HEADS = (
    (re.compile(r"\w+=([01]|odd)"), "input"),  # `M=1`
    (re.compile(r"vs .+"), "speedup"),  # `vs torch-native`
    (re.compile(r"(old|new) (us|gb/s|tflop/s|%)"), "old"),
    (
        re.compile(r"((shortest |launch )?time|speed|traffic|throughput|share of copy|sol)( - drift| without drift)"),
        "change",
    ),
)
"""Column headings that contain a name or a unit, in small letters, and the word that explains them."""

KINDS: dict[str, dict[str, str]] = {
    "status": {str(status): status.explanation for status in Status},
    "flag": {str(flag): flag.explanation for flag in Flag},
    "control": {str(control): control.explanation for control in Control},
    "edge input": {str(edge): edge.explanation for edge in EdgeInput},
    "column": {name: column.explanation for name, column in COLUMNS.items()},
    "word": WORDS,
    "verdict": {str(verdict): verdict.explanation for verdict in Verdict},
}
"""Everything that can be explained, by kind. `suspect` is a flag and a verdict; the paragraph on the flag explains both."""


class Explained(NamedTuple):
    """A paragraph, the word that it is under, and the kind of that word."""

    name: str
    kind: str
    text: str


def find_explanation(word: str) -> Explained | None:
    """The paragraph on a word as the screen or a person writes it, or None for a word that kbench does not use."""
    key = " ".join(word.split()).casefold()
    for head, name in HEADS:
        if head.fullmatch(key):
            key = name
    key = next((name for name, synonyms in ALIASES.items() if key in synonyms), key)
    kinds = {kind: name for kind, texts in KINDS.items() for name in texts if name.casefold() == key}
    if not kinds:
        return find_explanation(key[:-1]) if key.endswith("s") else None  # `sessions`
    kind, name = next(iter(kinds.items()))
    return Explained(name, " and ".join(kinds), " ".join(KINDS[kind][name].split()))
