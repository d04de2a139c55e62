"""What the lines of a script compare, in plain sentences: unequal work, different outputs, work beside the computation.

A script has no reference, so nobody checks its lines. These sentences say what a reader must know before the numbers. They
follow from the rows alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import chain
from statistics import median

from kbench.results.row import Row
from kbench.results.vocabulary import CALL, CALL_ORDER, NO_TENSORS, Agreement, Flag, Noticed
from kbench.text.words import list_words, plural

WORK_SHARE = 0.01
"""Counts of work that differ by no more than this are equal: scripts round the rates from which the counts follow."""

LATE_SHARE, LATE_MS = 0.2, 2e-3
"""What the script's timer reads by itself must exceed the time by this share and by this much before it is called too long:
2 us are jitter of the events."""

HOST_SHARE = 0.5
"""If a launch takes the host this share of what the timer reads, the host is the reason."""

LINES_NAMED = 3
"""How many lines with the same count of work a sentence names."""

RowsByLine = dict[str, list[Row]]


def audit(rows: Sequence[Row]) -> list[str]:
    """The sentences about the rows of a script, the gravest first; none for a file without `unchecked` rows."""
    cases: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    lines: RowsByLine = defaultdict(list)
    for row in rows:
        if row.of_provider and Flag.UNCHECKED in row.flags:
            cases[row.session, row.case].append(row)
    for row in chain(*cases.values()):
        lines[row.configuration_name].append(row)
    of_lines = [about(name, of_line) for about in (_outputs, _noticed, _late) for name, of_line in lines.items()]
    return [*_work(cases.values()), *_counts(lines), *chain(*of_lines), *_calls(cases.values())]


def _work(cases: Iterable[Sequence[Row]]) -> Iterator[str]:
    """Lines for which the script counts different amounts of work in the same case."""
    counting = [group for group in cases if sum(row.counted is not None for row in group) > 1]
    unequal = [group for group in counting if _spread(group) > WORK_SHARE]
    if not unequal:
        return
    group = max(unequal, key=_spread)
    unit = "FLOP" if any(row.tflops is not None for row in group) else "bytes"
    alike: dict[float, list[str]] = defaultdict(list)
    for row in group:
        if row.counted is not None:
            alike[row.counted].append(row.configuration_name)
    (first, names), *further = alike.items()
    counts = [f"{first:,.0f} {unit} per call for {list_words(names, LINES_NAMED)}"]
    counts += [f"{count:,.0f} for {list_words(names, LINES_NAMED)}" for count, names in further]
    yield (
        f"The script counts different amounts of work for its providers in {_share(unequal, counting)}. At "
        f"{_point(group[0])} it counts {'; '.join(counts)}. Compare their times: the rates that the script reports "
        "for them cannot be compared."
    )


def _spread(group: Sequence[Row]) -> float:
    """How far the counts of a case differ, as a share of the smallest."""
    counts = [row.counted for row in group if row.counted is not None]
    return max(counts) / min(counts) - 1 if min(counts) > 0 else float(max(counts) > 0)


def _counts(lines: RowsByLine) -> Iterator[str]:
    """Lines whose counted bytes differ from those of their tensors."""
    doubted: dict[float, list[Row]] = defaultdict(list)  # by factor, a row of each line
    for rows in lines.values():
        counting = [row for row in rows if row.counted is not None and row.ms]
        doubtful = [row for row in counting if Noticed.TENSOR_BYTES in _words(row)]
        if len(doubtful) > len(counting) / 2:  # at some sizes, what a script leaves out is not small
            last = doubtful[-1]
            factor = (last.counted or 0.0) / int(_words(last)[Noticed.TENSOR_BYTES])
            doubted[float(f"{factor:.2g}")].append(last)
    for factor, rows in doubted.items():
        names, moved = [row.configuration_name for row in rows], int(_words(rows[0])[Noticed.TENSOR_BYTES])
        yield (
            f"For {list_words(names, LINES_NAMED)}, the script counts {factor:,g} times the bytes of the tensors that a call "
            f"holds and returns: {rows[0].counted:,.0f} for {moved:,} bytes at {_point(rows[0])}. Check its "
            "count, and the unit of its label."
        )


def _words(row: Row) -> dict[str, str]:
    """The words in `noticed`, each with what follows it: `{"same-as": "torch", "warm": ""}`."""
    return dict(noticed.partition(" ")[::2] for noticed in row.noticed.split(";"))


def _outputs(name: str, rows: Sequence[Row]) -> Iterator[str]:
    """Whether the outputs of a line differ from those of the baseline, or cannot be compared with them."""
    differing = [row for row in rows if row.agreement.startswith(Agreement.DIFFERS)]
    if differing:
        most = max(differing, key=lambda row: float(row.agreement.split()[2]))
        yield (
            f"{name} returns something else than the baseline in {_share(differing, rows)}: it "
            f"{most.agreement} at {_point(most)}. One of them may be wrong, or less precise."
        )
    silent = [row for row in rows if row.agreement.startswith(Agreement.NOT_COMPARABLE)]
    if silent:
        why = silent[0].agreement.partition(": ")[2]
        owner = "the baseline's" if why.startswith("the baseline") else "its"
        advice = f" Let {owner} closure return a tensor, or a tuple of tensors only." if NO_TENSORS in why else ""
        yield (
            f"The output of {name} cannot be compared with that of the baseline in {_share(silent, rows)}: "
            f"{why}.{advice}"
        )


SENTENCES = {
    Noticed.COPIES_INPUT: "{name} copies one of its inputs inside the timed call, {where}. The copy is part of its time.",
    Noticed.COPIES_FROM_HOST: "{name} copies data from the host inside the timed call, {where}. The copy is part of its time.",
    Noticed.DRAWS_RANDOM: "{name} draws random numbers inside the timed call, {where}. If they are inputs, draw them before.",
    Noticed.ALLOCATES: (
        "{name} allocates its output inside the timed call, {where}. The baseline returns memory that existed before the call."
    ),
    Noticed.REUSES_MEMORY: (
        "{name} returns memory that existed before the timed call, {where}: a buffer, or an input that it changes. The "
        "baseline allocates its output inside the call."
    ),
    Noticed.WAITS: "{name} waits for the device inside the timed call, {where}, because it reads a value of a tensor.",
    Noticed.LAUNCHES_NOTHING: (
        "{name} runs nothing on the device, {where}. It may return what it computed before, or have caught an error."
    ),
    Noticed.DIVIDED: (
        "The script divides the time of a call of {name} by {what}, {where}, and so does kbench: its rows show the time of one "
        "unit of work."
    ),
    Noticed.SAME_AS: (
        "{name} runs the same kernels as {what} {where}. It may have fallen back to it: then the time of {name} is that of "
        "{what}."
    ),
}
"""What a closure does beside its computation, or instead of it. `what` is what follows the word in `noticed`."""


def _noticed(name: str, rows: Sequence[Row]) -> Iterator[str]:
    """What `noticed` says of a line, and whether the script's timer finds its inputs in the cache."""
    for word, sentence in SENTENCES.items():
        if noticing := [words[word] for words in map(_words, rows) if word in words]:
            what = " or ".join(sorted({*noticing}))
            yield sentence.format(name=name, what=what, where=f"in {_share(noticing, rows)}")
    # a timer that reads more than kbench measures the host as well: see _late
    warm = [row for row in rows if Noticed.WARM in _words(row) and row.script_ms and _late_ms(row) < 0]
    if warm and warm[0].cache == "cold":
        times = f"it reads {_us(warm[0].script_ms)} us, and kbench measures {_us(warm[0].ms)} us"
        yield f"The script's timer leaves the inputs of {name} in the cache: at {_point(warm[0])} {times} with a cold cache."


def _late(name: str, rows: Sequence[Row]) -> Iterator[str]:
    """Whether the script's timer by itself reads more than kbench, because it times the host."""
    timed = [row for row in rows if row.script_ms and row.ms and row.launch_ms]
    late = []
    for row in timed:
        is_late = _late_ms(row) > max(LATE_SHARE * (row.ms or 0), LATE_MS)
        if is_late and (row.launch_ms or 0) > HOST_SHARE * (row.script_ms or 0):
            late.append(row)
    if late:
        worst = max(late, key=_late_factor)
        yield (
            f"For {name}, the script's timer times the host, not the device, in {_share(late, timed)}. At {_point(worst)} "
            f"it reads {_us(worst.script_ms)} us. kbench measures {_us(worst.ms)} us, and a launch takes the host "
            f"{_us(worst.launch_ms)} us. In these cases the script's times are {median(map(_late_factor, late)):.1f} times "
            "as long as kbench's (median)."
        )


def _late_factor(row: Row) -> float:
    return (row.script_ms or 0.0) / (row.ms or 1.0)


def _calls(cases: Iterable[Sequence[Row]]) -> Iterator[str]:
    """What is compared if a program calls timers outside of plots, or a line of a plot calls one several times."""
    if any(set(group[0].case.axes) == {CALL_ORDER} and len(group) > 1 for group in cases):
        compared = "It compares the first calls of all providers with each other, then the second calls, and so on."
    elif any(row.params == f"{CALL}=2" for row in chain(*cases)):
        compared = "It ranks all calls of a case together; the column speedup compares first calls with first calls."
    else:
        return
    ignore = "Ignore comparisons of calls that do different work."
    yield f"kbench does not know which calls of timers do the same work. {compared} {ignore}"


def _share(subset: Sized, cases: Sized) -> str:
    """`2 of 3 cases`"""
    return f"{len(subset)} of {plural(len(cases), 'case')}"


def _late_ms(row: Row) -> float:
    return (row.script_ms or 0.0) - (row.ms or 0.0)


def _point(row: Row) -> str:
    """`M=4096 N=256`"""
    return " ".join(f"{name}={value}" for name, value in row.case.axes.items()) or row.case.dtype


def _us(ms: float | None) -> str:
    return f"{(ms or 0.0) * 1e3:.4g}"
