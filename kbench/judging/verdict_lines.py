"""A judgement as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbench.analysis import Outcome
from kbench.judging.judge import FileJudgement
from kbench.judging.judgement import TIMING, Against, FailedCase, ProviderJudgement, many
from kbench.judging.uncompared import Uncompared
from kbench.protocol import RANDOM
from kbench.results.vocabulary import CHECKED_REASON, Status
from kbench.text.printable import printable, safe_reason

FAILURES_SHOWN = 5
"""How many reasons of a wrong provider are printed. The others are counted."""

FEW_INPUTS = 2
"""If a provider failed on so many edge inputs at most, the verdict names them first: it is right on all others."""

LABEL_WIDTH = 14
"""Characters of the first column."""

OUTCOME_WORDS = {Outcome.FASTER: "faster", Outcome.TIE: "as fast", Outcome.SLOWER: "slower", Outcome.UNCLEAR: "unclear"}


def verdict_lines(judged: FileJudgement, judgement: ProviderJudgement) -> Iterator[str]:
    """The lines on one provider."""
    yield f"{judgement.provider} ({judged.file.name}), {judged.operator} on {judged.device}"
    yield from _row("correct", list(_correct(judged, judgement)))
    yield from _row("trust", list(_trust(judgement)))
    yield from _row("deterministic", [_deterministic(judgement)])
    yield from _row("speed", list(_speed(judged, judgement)))


def _row(head: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"  {'' if number else head:{LABEL_WIDTH}} {line}"


def _correct(judged: FileJudgement, judgement: ProviderJudgement) -> Iterator[str]:
    failures = judgement.failures
    if not judgement.tried:
        yield "unknown: kbench could not check it in any case"
    elif not failures:
        edges = len({each.edge for each in judgement.accepted})
        where = f"in {_accepted(judgement, 'case')} and on {_accepted(judgement, 'random shape')}"
        yield f"yes: {many(edges, 'kind')} of input, {where}"
    else:
        cases = len({each.case for each in judgement.checks} | {row.case.label for row in judgement.rows})
        failed = f"{len({each.case for each in failures})} of {many(cases, 'case')} failed"
        inputs = list(dict.fromkeys(name for each in failures for name in each.inputs))
        few = len(inputs) <= FEW_INPUTS and not {RANDOM, TIMING} & set(inputs)
        noun = f"edge input{'s' * (len(inputs) > 1)}"
        yield f"no: right except for the {noun} {', '.join(inputs)}; {failed} there" if few else f"no: {failed}"
    alike: dict[tuple[Status, str, tuple[str, ...]], list[FailedCase]] = {}
    for each in failures:
        alike.setdefault((each.status, each.reason, each.inputs), []).append(each)
    for (status, reason, names), group in list(alike.items())[:FAILURES_SHOWN]:
        where = f"at {_sizes(group[0].case)}" if len(group) == 1 else f"in {many(len(group), 'case')}"
        yield f"{status.value} {where} ({', '.join(names)}): {safe_reason(reason)}"
    if (more := len(alike) - FAILURES_SHOWN) > 0:
        yield f"and {more} more; --json prints all"
    for (status, reason), count in judgement.declined.items():
        yield f"{status.value} in {many(count, 'case')}: {safe_reason(reason)}"


def _accepted(judgement: ProviderJudgement, noun: str) -> str:
    """`20 random shapes`, or `5 of 20 random shapes` if the provider declined the others. `noun` is that or `case`."""
    random = noun != "case"
    every = {each.case for each in judgement.checks if each.random == random}
    accepted = {each.case for each in judgement.accepted if each.random == random}
    return f"{len(accepted)} of {many(len(every), noun)}" if len(accepted) < len(every) else many(len(every), noun)


def _trust(judgement: ProviderJudgement) -> Iterator[str]:
    distrusted = judgement.distrusted
    if distrusted:
        counted = ", ".join(f"{count} {word}" for word, count in distrusted.items())
        yield f"no: {counted} (kbench explain {next(iter(distrusted))})"
        if doubt := next((each for each in judgement.doubts if each.reason), None):
            yield f"{doubt.flag} at {_sizes(doubt.case)}: {safe_reason(doubt.reason)}"
    elif not judgement.rows:
        yield "unknown: it was not timed"
    else:
        yield "no sign of tampering"
    harmless = {flag: count for flag, count in judgement.flags.items() if flag not in distrusted}
    if harmless:
        yield "flags: " + ", ".join(f"{count} {flag}" for flag, count in harmless.items())


def _deterministic(judgement: ProviderJudgement) -> str:
    same = judgement.deterministic
    if same is None:
        return "unknown: no input was tried twice"
    if same:
        return "yes"
    right = "" if judgement.failures else ", both within the tolerance"
    return f"no: two calls on the same input gave different bits{right}"


def _speed(judged: FileJudgement, judgement: ProviderJudgement) -> Iterator[str]:
    if not judgement.rows:
        if judgement.failures:
            yield "not timed: it is not right"
        elif judged.interrupted:
            yield "not timed: interrupted before a case had been timed"
        else:
            yield "not timed: " + ("no baseline can run here" if judgement.tried else "it took part in no case")
        yield from map(_gap, judgement.uncompared)
        return
    if all(row.status is Status.CHECKED for row in judgement.rows):
        yield CHECKED_REASON
        return
    if not judgement.against:
        yield "no baseline was timed in the same cases"
    for against in judgement.against:
        yield _against(against)
    yield from map(_gap, judgement.uncompared)
    if judged.noise:
        yield judged.noise


def _gap(gap: Uncompared) -> str:
    if gap.status is Status.UNAVAILABLE:
        return f"not compared with {gap.baseline}, which cannot run here: {safe_reason(gap.reason)}"
    return f"not compared with {gap.baseline} in {many(gap.cases, 'case')}: {gap.status} ({safe_reason(gap.reason)})"


def _against(against: Against) -> str:
    low, high = against.interval
    counts = ((OUTCOME_WORDS[outcome], against.count(outcome)) for outcome in OUTCOME_WORDS)
    counted = ", ".join(f"{word} in {count}" for word, count in counts if count)
    text = f"{against.geomean:.3f}x as fast as {against.baseline} [{low:.3f}, {high:.3f}]: {counted} of "
    text += many(len(against.cases), "case")
    if len(against.cases) > 1:
        worst, best = against.worst, against.best
        text += f"; worst {worst.speedup:.2f}x at {_sizes(worst.case)}, best {best.speedup:.2f}x at {_sizes(best.case)}"
    return text


def too_slow(speedup: float, least: float) -> str:
    """The line for a speedup that is less than `--min-speedup`, with as many digits as show this."""
    texts = (f"{speedup:.{digits}f}" for digits in range(3, 20))
    shown = next((text for text in texts if float(text) < least), str(speedup))
    return f"too slow: {shown}x is less than --min-speedup {least:.15g}"


def not_known(judgement: ProviderJudgement) -> str:
    """The line for a speed-up that `--min-speedup` asks for and that is not known."""
    lacking = list(dict.fromkeys(each.baseline for each in judgement.uncompared if each.required))
    if not lacking:
        return "not shown to be fast enough: it was not compared with any baseline"
    return (
        f"not shown to be fast enough: --min-speedup needs the comparison with {', '.join(lacking)}; "
        "leave a baseline out with --baseline, or make it run"
    )


def _sizes(label: str) -> str:
    """The label of a case without its operator."""
    return printable(label.partition(" ")[2])
