"""A verdict as a table of text: what is said of a provider, and why."""

from __future__ import annotations

from collections.abc import Iterator

from kbench.analysis import Outcome
from kbench.judging.answer import (
    TIMING,
    BaselineSpeed,
    Contest,
    Gap,
    JudgeAnswer,
    JudgedProvider,
    Profile,
    Shortfall,
    Speed,
)
from kbench.protocol import RANDOM
from kbench.results.vocabulary import Flag, Status
from kbench.text.numbers import microseconds
from kbench.text.words import plural

FEW_INPUTS = 2
"""If a provider failed on so many edge inputs at most, the verdict names them first: it is right on all others."""

LABEL_WIDTH = 14
"""Characters of the first column."""

OUTCOME_WORDS = {
    Outcome.FASTER: "faster",
    Outcome.TIE: "as fast",
    Outcome.SLOWER: "slower",
    Outcome.UNCLEAR: "unclear",
}


def verdict_lines(
    answer: JudgeAnswer, provider: JudgedProvider, min_speedup: float | None, *, has_champion: bool = False
) -> Iterator[str]:
    """The lines on one provider."""
    yield f"{provider.provider} ({answer.file}), {answer.operator} on {answer.device}, --seed {answer.seed}"
    table = {
        "correct": _correct(provider),
        "trust": _trust(provider),
        "deterministic": _deterministic(provider),
        "speed": _speed(answer, provider),
        "champion": _contest(provider) if has_champion else iter(()),
        "profile": _profile(provider.profile),
        "hints": iter(provider.hints),
    }
    for label, lines in table.items():
        for number, line in enumerate(lines):
            yield f"  {'' if number else label:{LABEL_WIDTH}} {line}"
    if min_speedup is not None:
        yield from _gate(provider, min_speedup)


def _correct(provider: JudgedProvider) -> Iterator[str]:
    left_out = provider.left_out_cases
    if provider.correct is None and left_out:
        yield f"unknown: kbench has not checked {plural(left_out, 'case')}; no failure in the others"
    elif provider.correct is None:
        yield "unknown: kbench could not check it in any case"
    elif provider.correct:
        yield f"yes: {plural(provider.checked_inputs, 'input')}, in {plural(provider.tried_cases, 'case')}"
    else:
        failed = f"{provider.failed_cases} of {plural(provider.tried_cases, 'case')} failed"
        inputs = list(dict.fromkeys(failure.input for failure in provider.failures))
        few = len(inputs) <= FEW_INPUTS and not {RANDOM, TIMING} & set(inputs)
        noun = "edge input" if len(inputs) == 1 else "edge inputs"
        no = f"no: right except for the {noun} {', '.join(inputs)}; {failed} there" if few else f"no: {failed}"
        yield f"{no}; kbench stopped and has not checked {plural(left_out, 'more case')}" if left_out else no
    inputs_by_fault: dict[tuple[str, str], list[str]] = {}
    for failure in provider.failures:
        more = f" and {failure.cases - 1} more" if failure.cases > 1 else ""
        shapes = f", {failure.shapes}" if failure.shapes else ""
        fault = f"{failure.status.value} at {_sizes(failure.case)}{more}", failure.reason
        inputs_by_fault.setdefault(fault, []).append(f"{failure.input}{shapes}")
    for (where, reason), inputs in inputs_by_fault.items():
        yield f"{where} ({'; '.join(inputs)}): {reason}"
    if provider.more_failures:
        yield f"and on {plural(provider.more_failures, 'more input')}"
    if provider.failures:
        yield f"repeat: {provider.failures[0].reproduce}"
    for declined in provider.declined:
        yield f"{declined.status.value} in {plural(declined.cases, 'case')}: {declined.reason}"


def _trust(provider: JudgedProvider) -> Iterator[str]:
    signs = {doubt.flag.value: doubt.cases for doubt in provider.doubts}
    signs |= {failure.status.value: failure.cases for failure in provider.failures if failure.status is Status.TAMPERED}
    if signs:
        counted = ", ".join(f"{word} in {plural(cases, 'case')}" for word, cases in signs.items())
        yield f"no: {counted} (kbench explain {next(iter(signs))})"
        for doubt in provider.doubts:
            if doubt.reason:
                yield f"{doubt.flag.value} at {_sizes(doubt.case)}: {doubt.reason}"
    elif provider.trusted is None:
        yield "unknown: it has no time"
    else:
        yield "no sign of tampering"
    harmless = [
        f"{plural(count, 'row')} {flag.value}" for flag, count in provider.flags.items() if flag.value not in signs
    ]
    if harmless:
        yield f"flags: {', '.join(harmless)} (a row is one case in one session)"


def _deterministic(provider: JudgedProvider) -> Iterator[str]:
    if provider.deterministic is None:
        yield "unknown: no input was tried twice"
    elif provider.deterministic:
        yield "yes"
    else:
        right = "" if provider.failures else ", both within the tolerance"
        yield f"no: two calls on the same input gave different bits{right}"


def _speed(answer: JudgeAnswer, provider: JudgedProvider) -> Iterator[str]:
    if answer.interrupted and not answer.cases and not provider.failures:
        yield "not timed: interrupted before a case had been timed"
    elif provider.untimed:
        yield provider.untimed
    elif not provider.baselines:
        suspect = Flag.SUSPECT in provider.flags
        yield "not compared: its times are suspect" if suspect else "no baseline was timed in the same cases"
    for baseline in provider.baselines:
        yield from _against(baseline, provider.contest)
    yield from map(_gap, provider.not_compared)
    if not provider.untimed and not answer.interrupted and answer.cases < answer.of_cases:
        yield f"{answer.cases} of the {answer.of_cases} cases of the config were timed; --set and --profile choose others"
    if answer.noise and not provider.untimed:
        yield answer.noise


def _against(against: BaselineSpeed, contest: Contest | None) -> Iterator[str]:
    """The speed beside a baseline, over all sessions. That beside the champion is in the line of the contest."""
    outcomes = [
        f"{word} in {count}" for outcome, word in OUTCOME_WORDS.items() if (count := against.outcomes.get(outcome))
    ]
    cases = sum(against.outcomes.values())
    contested = contest is not None and contest.champion == against.baseline
    speedup = f"beside {against.baseline}" if contested else _times_as_fast(against, against.baseline)
    text = f"{speedup}: {', '.join(outcomes)} of {plural(cases, 'case')}"
    low, high = against.interval
    if against.outcomes.get(Outcome.UNCLEAR) == cases and not low <= 1 <= high:
        # to rank providers asks for more than the interval has: see `Noise.at`
        text += ", because two timings of the same code may differ by as much here"
    if cases > 1:
        pair = {"worst": against.worst, "best": against.best}
        text += "; " + ", ".join(f"{word} {case.speedup:.2f}x at {_sizes(case.case)}" for word, case in pair.items())
    yield text
    if against.groups:
        yield "  " + ", ".join(f"{group.group} {group.speedup:.2f}x" for group in against.groups)


def _gap(gap: Gap) -> str:
    if gap.status is Status.UNAVAILABLE:
        return f"not compared with {gap.baseline}, which cannot run here: {gap.reason}"
    return f"not compared with {gap.baseline} in {plural(gap.cases, 'case')}: {gap.status.value} ({gap.reason})"


def _times_as_fast(speed: Speed, other: str) -> str:
    low, high = speed.interval
    return f"{speed.speedup:.3f}x as fast as {other} [{low:.3f}, {high:.3f}]"


def _contest(provider: JudgedProvider) -> Iterator[str]:
    """The outcome beside the champion, or why there is none."""
    contest = provider.contest
    if contest is None:
        why = "it is not right" if provider.failures else "no case has a time of both that counts"
        yield f"not compared: {'it is not trusted' if provider.trusted is False else why}"
        return
    yield f"{_times_as_fast(contest, contest.champion)}, the mean of the sessions in {contest.files[-1]}"
    number = f"candidate {contest.candidate_number} of the ledger"
    after = f"after {plural(contest.sessions, 'session')}"
    if contest.better:
        yield f"better: {number} was confirmed {after}"
    elif contest.alpha is None:
        yield f"not better: {number} was stopped by the screen {after}"
    else:
        evidence = f"evidence {contest.evidence:.3g} of {1 / contest.alpha:.3g}"
        yield f"not better: {number} was not confirmed {after} ({evidence})"


def _profile(profile: Profile | None) -> Iterator[str]:
    if profile is None:
        return
    facts = [
        "" if profile.launches is None else plural(profile.launches, "launch", "launches"),
        "" if profile.registers is None else f"{profile.registers} registers",
        "" if profile.spilled_bytes is None else f"{profile.spilled_bytes} bytes spilled",
        "" if profile.copy_fraction is None else f"{profile.copy_fraction:.2f} of copy",
    ]
    yield f"at {_sizes(profile.case)}: {', '.join([f'{microseconds(profile.ms)} us', *filter(None, facts)])}"
    yield from (cause.sentence for cause in profile.causes)


def _gate(provider: JudgedProvider, min_speedup: float) -> Iterator[str]:
    """Why the provider does not pass `--min-speedup`."""
    lacking = list(dict.fromkeys(gap.baseline for gap in provider.not_compared if gap.required))
    if Shortfall.TOO_SLOW in provider.reasons:
        fastest = provider.baselines[0]
        speedup = f"{fastest.speedup:.6g}x as fast as {fastest.baseline}"
        yield f"  too slow: {speedup} is less than --min-speedup {min_speedup:g}"
    elif Shortfall.SPEED_UNKNOWN in provider.reasons:
        why = "it was not compared with any baseline"
        if lacking:
            needs = f"--min-speedup needs the comparison with {', '.join(lacking)}"
            why = f"{needs}; leave a baseline out with --baseline, or make it run"
        yield f"  not shown to be fast enough: {why}"


def _sizes(label: str) -> str:
    """The label of a case without its operator."""
    return label.partition(" ")[2]
