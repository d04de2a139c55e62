"""A judged history as text: an event for each run in which something changed, with what moved there."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from kbench.comparison.report import paint, paint_mark
from kbench.comparison.verdict import Verdict
from kbench.history.change_points import FEWEST
from kbench.history.changes import HistoryChange, MovedProperty
from kbench.history.report import HistoryReport
from kbench.text.numbers import format_change, interval, microseconds
from kbench.text.table import Table
from kbench.text.words import plural

MOST_MOVED = 8
"""Properties of a kind that a line names. The rest are counted; the JSON export has all."""

SEEN_SOON = 3.0
"""A smaller step, in units of the noise, often takes more than three points to be found: tools/history_simulation.py."""

NOTHING_MOVED = "nothing that kbench records"


def report_lines(report: HistoryReport, *, colour: bool) -> Iterator[str]:
    if report.failing:
        yield paint(Verdict.FAILED, f"! {gate_sentence(report)}", colour)
        yield ""
    yield head(report)
    yield method_line(report)
    for event in events(report.reported):
        yield ""
        yield from _event(report, event, colour)
    yield ""
    yield from notes(report)


def gate_sentence(report: HistoryReport) -> str:
    """Why the gate failed: `gate failed: 5 slower (--fail-on slower)`."""
    return f"gate failed: {counted_kinds(report.failing)} (--fail-on {','.join(report.options.fail_on)})"


def head(report: HistoryReport) -> str:
    """What the history holds."""
    days = " to ".join(dict.fromkeys([report.day(0), report.day(-1)]))
    series = plural(len(report.series), "series", "series")
    points = plural(sum(len(series.points) for series in report.series), "point")
    machines = ", ".join(dict.fromkeys(series.key.machine for series in report.series))
    return f"{plural(len(report.timeline.runs), 'run')} from {days}: {series} with {points}, {machines}"


def method_line(report: HistoryReport) -> str:
    """The noise, and which changes count."""
    text = "times are in us, "
    if report.corrected:
        text += "without the drift that the copy control shows; "
    if usual := _usual_noise(report):
        text += f"noise {100 * usual:.1f} % (median of the series), "
    return f"{text}margin {report.options.margin * 100:g} %"


def _usual_noise(report: HistoryReport) -> float | None:
    """The median noise of the series that are long enough to tell, as a share of the time."""
    noises = [series.noise for series in report.series if len(series.timed) >= FEWEST]
    return statistics.median(noises) if noises else None


def events(changes: Sequence[HistoryChange]) -> list[list[HistoryChange]]:
    """The changes by run and machine, and by what moved with them except the baseline of their case."""
    groups: dict[object, list[HistoryChange]] = {}
    for change in changes:
        shared = {**change.moved, "code": change.moved.get("code", ())[:1]}
        groups.setdefault((change.event_run, change.series.key.machine, *shared.items()), []).append(change)
    return list(groups.values())


def moved_text(changes: Sequence[HistoryChange]) -> str:
    """What moved in an event: `stack: torch 2.9.0 -> 2.10.0`, or that nothing did; "" if only a baseline moved."""
    # the hash of the code says nothing beside the commits
    kinds = {kind: moved[:1] if kind == "code" else moved for kind, moved in changes[0].moved.items()}
    texts = [f"{kind}: {_few(moved)}" for kind, moved in kinds.items() if moved]
    if ratio := next((change.copies for change in changes if change.copies), None):
        became = f"{abs(ratio - 1):.1%} {'slower' if ratio > 1 else 'faster'}"
        texts.append(f"machine: the copy control became {became}, which is subtracted")
    if not texts and not any(change.baseline for change in changes):
        return NOTHING_MOVED
    return "; ".join(texts)


def baseline_text(change: HistoryChange) -> str:
    """How the baseline of the case changed in the same run; "" if it did not."""
    if not change.baseline:
        return ""
    name, ratio = change.baseline
    return f"the baseline {name} changed too, by {format_change(ratio)}"


def _event(report: HistoryReport, changes: Sequence[HistoryChange], colour: bool) -> Iterator[str]:
    machine = changes[0].series.key.machine
    of_machine = sum(series.key.machine == machine for series in report.series)
    yield f"{report.day(changes[0].event_run)}  {counted_kinds(changes)} of {of_machine} series, {machine}"
    if text := moved_text(changes):
        yield f"  changed with it: {text}"
    rows = []
    for change in changes:
        step = levels = ""
        if change.ratio and change.ci and change.old_ms and change.new_ms:
            step = f"{format_change(change.ratio)} {interval(change.ci)}"
            levels = f"{microseconds(change.old_ms)} -> {microseconds(change.new_ms)} us"
        parts = [change.series.key.label, _place(report, change), change.reason, baseline_text(change)]
        rows.append((change.kind.mark, step, levels, "; ".join(filter(None, parts))))
    table = Table(("kind", "change", "levels", "series"), rows).without_empty(("change", "levels"))
    for change, line in zip(changes, table.lines()[1:], strict=True):
        yield f"  {paint_mark(line, change.kind, colour)}"


def _place(report: HistoryReport, change: HistoryChange) -> str:
    """Where else a change may have begun; "" if the run is certain."""
    if change.runs[0] == change.runs[1]:
        return ""
    first, last = map(report.day, change.runs)
    if first == last:
        first, last = (report.timeline.runs[run].started_at[:19].replace("T", " ") for run in change.runs)
    return f"it began between {first} and {last}"


def notes(report: HistoryReport) -> Iterator[str]:
    """What the events leave out, and a sentence if there are none."""
    if not report.reported:
        where = "" if report.options.everything else f" in the last {plural(report.options.recent, 'run')}"
        yield f"no change{where}"
    if older := len(report.changes) - len(report.reported):
        yield f"{plural(older, 'older change')} not shown; --all shows {'it' if older == 1 else 'them'}"
    usual = _usual_noise(report) or 0.0
    if usual > report.options.margin / 2:
        least = f"{100 * SEEN_SOON * usual:.2g} %"
        yield f"with this noise, a step of less than about {least} may take more than three runs to be found, or stay hidden"
    short = sum(0 < len(series.timed) < FEWEST for series in report.series)
    if short:
        have = f"{plural(short, 'series', 'series')} {'has' if short == 1 else 'have'}"
        yield f"{have} fewer than {FEWEST} measured times, too few to find a change of level"
    yield from _failing(report)
    if report.uncorrected:
        count = plural(report.uncorrected, "reading")
        yield f"{count} without a copy control in the session: a drift of the machine is not subtracted there"


def _failing(report: HistoryReport) -> Iterator[str]:
    """The series that failed when they were last measured."""
    timeline = report.timeline
    for series in report.series:
        last = series.points[-1]
        if not last.failed:
            continue
        subject = f"{series.key.label}: {last.status}"
        source = timeline.runs[last.run].source
        if last.run == timeline.runs_of_sources[source, series.key.machine][-1]:
            *_, since = itertools.takewhile(lambda point: point.failed, reversed(series.points))
            yield f"still failing: {subject} since {since.day}: {last.reason}"
        else:
            yield f"failed when last measured ({last.day}): {subject}: {last.reason}"


def counted_kinds(changes: Sequence[HistoryChange]) -> str:
    """How many changes there are of each kind: `5 slower, 1 failed`."""
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts, key=lambda kind: kind.rank))


def _few(properties: Sequence[MovedProperty]) -> str:
    more = len(properties) - MOST_MOVED
    texts = ", ".join(moved.text for moved in properties[:MOST_MOVED])
    return f"{texts} and {more} more" if more > 0 else texts
