"""A verdict as a table of text: what is said of a provider, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kbench.analysis import Outcome
from kbench.judging.verdict import TIMING, JudgedBaseline, JudgedFailure, JudgedFile, JudgedGap, JudgedProvider
from kbench.protocol import RANDOM
from kbench.results.vocabulary import Status
from kbench.text.words import plural

FAILURES_SHOWN = 5
"""How many reasons of a wrong provider are printed. The others are counted."""

FEW_INPUTS = 2
"""If a provider failed on so many edge inputs at most, the verdict names them first: it is right on all others."""

LABEL_WIDTH = 14
"""Characters of the first column."""

OUTCOME_WORDS = {Outcome.FASTER: "faster", Outcome.TIE: "as fast", Outcome.SLOWER: "slower", Outcome.UNCLEAR: "unclear"}


def verdict_lines(judged: JudgedFile, provider: JudgedProvider, min_speedup: float | None) -> Iterator[str]:
    """The lines on one provider."""
    yield f"{provider.provider} ({judged.file}), {judged.operator} on {judged.device}, --seed {judged.seed}"
    table = {
        "correct": _correct(provider),
        "trust": _trust(provider),
        "deterministic": _deterministic(provider),
        "speed": _speed(judged, provider),
    }
    for label, lines in table.items():
        for number, line in enumerate(lines):
            yield f"  {'' if number else label:{LABEL_WIDTH}} {line}"
    if min_speedup is not None and not provider.failures:
        yield from _gate(provider, min_speedup)


def _correct(provider: JudgedProvider) -> Iterator[str]:
    if provider.correct is None:
        yield "unknown: kbench could not check it in any case"
    elif provider.correct:
        yield f"yes: {plural(provider.checked_inputs, 'input')}, in {plural(provider.tried_cases, 'case')}"
    else:
        cases = len({failure.case for failure in provider.failures})
        failed = f"{cases} of {plural(provider.tried_cases, 'case')} failed"
        inputs = list(dict.fromkeys(name for failure in provider.failures for name in failure.inputs))
        few = len(inputs) <= FEW_INPUTS and not {RANDOM, TIMING} & set(inputs)
        noun = "edge input" if len(inputs) == 1 else "edge inputs"
        yield f"no: right except for the {noun} {', '.join(inputs)}; {failed} there" if few else f"no: {failed}"
    yield from _reasons(provider.failures)
    for declined in provider.declined:
        yield f"{declined.status.value} in {plural(declined.cases, 'case')}: {declined.reason}"


def _reasons(failures: list[JudgedFailure]) -> Iterator[str]:
    """A line for each reason, whatever the number of its cases."""
    alike: dict[tuple[Status, str, tuple[str, ...]], list[str]] = {}
    for failure in failures:
        alike.setdefault((failure.status, failure.reason, tuple(failure.inputs)), []).append(failure.case)
    for (status, reason, inputs), cases in list(alike.items())[:FAILURES_SHOWN]:
        where = f"at {_sizes(cases[0])}" if len(cases) == 1 else f"in {plural(len(cases), 'case')}"
        yield f"{status.value} {where} ({', '.join(inputs)}): {reason}"
    if len(alike) > FAILURES_SHOWN:
        yield f"and {len(alike) - FAILURES_SHOWN} more; --json prints all"


def _trust(provider: JudgedProvider) -> Iterator[str]:
    signs = Counter(doubt.flag.value for doubt in provider.doubts)
    signs.update(failure.status.value for failure in provider.failures if failure.status is Status.TAMPERED)
    if signs:
        counted = ", ".join(f"{count} {word}" for word, count in signs.items())
        yield f"no: {counted} (kbench explain {next(iter(signs))})"
        if doubt := next((doubt for doubt in provider.doubts if doubt.reason), None):
            yield f"{doubt.flag.value} at {_sizes(doubt.case)}: {doubt.reason}"
    elif provider.trusted is None:
        yield "unknown: it was not timed"
    else:
        yield "no sign of tampering"
    harmless = [f"{count} {flag.value}" for flag, count in provider.flags.items() if flag.value not in signs]
    if harmless:
        yield f"flags: {', '.join(harmless)}"


def _deterministic(provider: JudgedProvider) -> Iterator[str]:
    if provider.deterministic is None:
        yield "unknown: no input was tried twice"
    elif provider.deterministic:
        yield "yes"
    else:
        right = "" if provider.failures else ", both within the tolerance"
        yield f"no: two calls on the same input gave different bits{right}"


def _speed(judged: JudgedFile, provider: JudgedProvider) -> Iterator[str]:
    if judged.interrupted and not judged.cases and not provider.failures:
        yield "not timed: interrupted before a case had been timed"
    elif provider.untimed:
        yield provider.untimed
    elif not provider.baselines:
        yield "no baseline was timed in the same cases"
    yield from map(_against, provider.baselines)
    yield from map(_gap, provider.not_compared)
    if judged.noise and not provider.untimed:
        yield judged.noise


def _against(against: JudgedBaseline) -> str:
    low, high = against.interval
    outcomes = Counter(case.outcome for case in against.cases)
    counted = ", ".join(
        f"{word} in {outcomes[outcome]}" for outcome, word in OUTCOME_WORDS.items() if outcomes[outcome]
    )
    cases = plural(len(against.cases), "case")
    text = f"{against.speedup:.3f}x as fast as {against.baseline} [{low:.3f}, {high:.3f}]: {counted} of {cases}"
    if len(against.cases) == 1:
        return text
    by_speed = sorted(against.cases, key=lambda case: case.speedup)
    worst, best = (f"{case.speedup:.2f}x at {_sizes(case.case)}" for case in (by_speed[0], by_speed[-1]))
    return f"{text}; worst {worst}, best {best}"


def _gap(gap: JudgedGap) -> str:
    if gap.status is Status.UNAVAILABLE:
        return f"not compared with {gap.baseline}, which cannot run here: {gap.reason}"
    return f"not compared with {gap.baseline} in {plural(gap.cases, 'case')}: {gap.status.value} ({gap.reason})"


def _gate(provider: JudgedProvider, min_speedup: float) -> Iterator[str]:
    """Why the provider does not pass `--min-speedup`."""
    lacking = list(dict.fromkeys(gap.baseline for gap in provider.not_compared if gap.required))
    if provider.slower_than(min_speedup):
        yield f"  too slow: {provider.baselines[0].speedup:.6g}x is less than --min-speedup {min_speedup:g}"
    elif lacking:
        yield (
            f"  not shown to be fast enough: --min-speedup needs the comparison with {', '.join(lacking)}; "
            "leave a baseline out with --baseline, or make it run"
        )
    elif not provider.baselines:
        yield "  not shown to be fast enough: it was not compared with any baseline"


def _sizes(label: str) -> str:
    """The label of a case without its operator."""
    return label.partition(" ")[2]
