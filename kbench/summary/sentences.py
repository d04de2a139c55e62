"""The sentences of a summary: the fastest provider, the noise floor, flags, and the rows without a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kbench.analysis import Analysis, Standing
from kbench.analysis.cases import key_of, more_sessions, wrong_cases
from kbench.analysis.ranking import ALONE, UNCLEAR
from kbench.results.row import Row
from kbench.results.vocabulary import NOT_TIMED, Flag, Status
from kbench.text.numbers import percent
from kbench.text.words import list_words, plural

COMPILED: dict[str, str] = {
    Flag.EAGER: "torch.compile reached its recompile limit and runs uncompiled",
    Flag.DYNAMIC_SHAPES: "torch.compile runs one kernel for several sizes",
}


def headline(analysis: Analysis) -> str:
    """`cuda is fastest in 33 of 60 cases and tied in 19 more; 1.87x as fast as torch-native (geomean).` If the baseline is
    wrong in some cases, their number follows."""
    wrong = {key.case for key in wrong_cases(analysis.rows, analysis.baseline)}
    if not wrong:
        return _ranking(analysis)
    total = plural(len({row.case for row in analysis.rows}), "case")
    lost = f"The baseline {analysis.baseline} is wrong in {len(wrong)} of {total}"
    return f"{_ranking(analysis)} {lost}: no speed-up there."


def _ranking(analysis: Analysis) -> str:
    winners, standings, noise = analysis.winners, analysis.standings, analysis.noise
    suspects = [row for row in analysis.rows if row.of_provider and Flag.SUSPECT in row.flags]
    if not winners and suspects:
        return f"Every provider is suspect in every case in which it was timed: {suspects[0].reason}."
    if not winners:
        return "No provider was timed."
    if noise.too_noisy:
        text = noise.sentence()
        return f"{text[0].upper()}{text[1:]}."
    # a case that was timed on two kinds of device counts twice
    cases = len({row.case for row in analysis.rows}) + len(analysis.cases) - len({key.case for key in analysis.cases})
    if len(standings) == 1:
        [only] = standings
        lost = len({key_of(row) for row in suspects})
        text = f"{_subject(analysis, only, cases)} was timed in {only.timed + lost} of {plural(cases, 'case')}"
        if lost:
            text += f", but the times of {plural(lost, 'case')} are suspect"
        return f"{text}; there is no provider to compare it with."
    marks = Counter(winner.mark for winner in winners)
    alone, unclear = marks[ALONE], marks[UNCLEAR]
    if alone == len(winners):
        where = " in each case" if alone > 1 else ""
        return f"Only one provider was timed{where}; there is nothing to compare it with."
    best = max(
        standings,
        key=lambda standing: (standing.sole + standing.shared, standing.sole, standing.mean() or 1.0),
    )
    only_one = f"; only one provider was timed in {plural(alone, 'case')}" if alone else ""
    if not best.sole and not best.shared:
        where = f" in any of {cases} cases" if cases > 1 else ""
        text = f"The measurements do not tell which provider is fastest{where}: noise may explain the differences"
        advice = f"More sessions may tell: kbench run CONFIG {more_sessions(analysis.rows)}."
        return f"{text}{noise.load}{only_one}. {advice}"
    text = f"{_subject(analysis, best, cases)} is "
    if best.sole:
        text += f"fastest in {best.sole} of {plural(cases, 'case')}"
        text += f" and tied in {best.shared} more" if best.shared else ""
    else:
        text += f"tied for fastest in {best.shared} of {plural(cases, 'case')}"
    text += _mean_speedup(analysis, best, cases)
    text += f"; {plural(unclear, 'case')} unclear" if unclear else ""
    return f"{text}{only_one}."


def _mean_speedup(analysis: Analysis, best: Standing, cases: int) -> str:
    """`; 1.87x as fast as torch-native (geomean of 50 cases)`; "" without a mean."""
    if not best.over_baseline:
        return ""
    means = [f"{best.mean():.2f}x"]
    if best.varies_by_mode:
        modes = dict.fromkeys(key.case.mode for key in best.over_baseline)
        means = [f"mode={mode} {best.mean(mode):.2f}x" for mode in modes]
    shared = len(best.over_baseline)
    extent = f" of {plural(shared, 'case')}" if shared < cases else ""
    weighted = ", weighted" if analysis.weights else ""
    return f"; {list_words(means)} as fast as {analysis.baseline} (geomean{extent}{weighted})"


def _subject(analysis: Analysis, standing: Standing, cases: int) -> str:
    """The provider, as the subject of a sentence on its speed, which begins with the cases in which it is wrong."""
    name = standing.configuration_name
    lost = len(wrong_cases(analysis.rows, name))
    return f"{name} is wrong in {lost} of {plural(cases, 'case')}; it" if lost else name


def caveats(analysis: Analysis) -> list[str]:
    """Lines on how far to trust the tables: the noise floor, flags, and providers whose output is not deterministic."""
    providers = [row for row in analysis.rows if row.of_provider]
    too_noisy = analysis.noise.too_noisy  # the headline says so
    lines = []
    if not too_noisy and any(row.ms is not None for row in providers):
        lines.append(analysis.noise.sentence())
    if analysis.weights and analysis.baseline is not None and not too_noisy:
        lines.append("geometric means are weighted by how often each case occurs (column weight)")
    raised = Counter(flag for row in providers for flag in row.flags)
    if raised:
        counted = ", ".join(f"{count} {flag}" for flag, count in raised.most_common())
        lines.append(f"flags: {counted} (kbench explain {next(iter(raised.most_common()))[0]})")
    flagged = {(row.configuration_name, flag, row.case) for row in providers for flag in row.flags if flag in COMPILED}
    for (configuration, flag), count in sorted(Counter(key[:2] for key in flagged).items()):
        cases = plural(count, "case")
        lines.append(f"{configuration}: {COMPILED[flag]} in {cases}; docs/extending.md says how to compile per case")
    varying = Counter(row.configuration_name for row in providers if row.deterministic is False)
    if varying:
        counted = ", ".join(f"{configuration} ({plural(count, 'case')})" for configuration, count in varying.items())
        lines.append(f"two calls on the same input gave different bits: {counted}")
    return lines


def precision_reached(rows: Sequence[Row], precision: float) -> str:
    """How many times of providers are known to the share `precision`, and how well the others are."""
    shares = [row.precision for row in rows if row.of_provider and row.ms is not None]
    reached = sum(share is not None and share <= precision for share in shares)
    text = f"precision: {reached} of {len(shares)} measured times are known to within {percent(precision)}"
    measured = [share for share in shares if share is not None]
    if reached == len(shares):
        return text
    single, worst = len(shares) - len(measured), max(measured, default=0.0)
    others = [f"{single} {'have' if single != 1 else 'has'} a single round"] if single else []
    if worst > precision:
        others.append(f"the others {'are known ' if single else ''}to {percent(worst)} or better")
    return f"{text}, {', '.join(others)} (column precision)"


def cases_of(rows: Sequence[Row]) -> int:
    """The number of measured cases. A case counts once per session."""
    return len({(row.session, row.case) for row in rows})


def left_out(rows: Sequence[Row]) -> list[str]:
    """One line per provider and status for rows without a time: the number of cases and the reason."""
    groups: dict[tuple[str, Status], list[Row]] = {}
    for row in rows:
        if row.status is not Status.OK:
            groups.setdefault((row.configuration_name, row.status), []).append(row)
    lines = []
    for (configuration, status), members in groups.items():
        reasons = list(dict.fromkeys(row.reason for row in members if row.reason))
        others = len(reasons) - 1
        more = f"; {plural(others, 'more reason')} in the column reason of the CSV" if others > 0 else ""
        cases = len({row.case for row in members})
        where = _shared_values(members, rows) if status.failed else ""
        here = "these cases" if cases > 1 else "this case"
        why = reasons[0] if reasons else f"right in {here}, but {NOT_TIMED}; kbench check tries edge inputs"
        lines.append(f"{configuration}: {status.value} ({plural(cases, 'case')}{where}): {why}{more}")
    return lines


def _shared_values(lost: Sequence[Row], rows: Sequence[Row]) -> str:
    """`, all at N=1001`: what all cases of the lost rows of a configuration share, and no case in which it is right. Empty if
    there is nothing."""
    name = lost[0].configuration_name
    right = [row for row in rows if row.configuration_name == name and row.status.right]
    of_lost, of_right = ([{"dtype": row.case.dtype, **row.case.axes} for row in group] for group in (lost, right))
    shared = {
        column: value
        for column, value in of_lost[0].items()
        if {values.get(column) for values in of_lost} == {value}
        and value not in {values.get(column) for values in of_right}
    }
    if not (right and shared):
        return ""
    every = "all " if len({row.case for row in lost}) > 1 else ""
    return f", {every}at {', '.join(f'{column}={value}' for column, value in shared.items())}"


def counts(rows: Sequence[Row]) -> str:
    """`45 ok, 9 checked, 3 unavailable`: the rows of providers by status, without controls."""
    statuses = [row.status for row in rows if row.of_provider]
    return ", ".join(f"{statuses.count(status)} {status.value}" for status in Status if status in statuses)
