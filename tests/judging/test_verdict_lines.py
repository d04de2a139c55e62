"""What `kbench judge` says of a provider that declines some of its inputs."""

from __future__ import annotations

from pathlib import Path

from making import row

from kbench.judging.json_document import text
from kbench.judging.judge import FileJudgement
from kbench.judging.judgement import CheckedInput, ProviderJudgement
from kbench.judging.verdict_lines import too_slow, verdict_lines
from kbench.results.vocabulary import Status


def checked(case: str, edge: str, *, declined: bool = False) -> CheckedInput:
    status, reason = (Status.UNSUPPORTED, "N must be even") if declined else (Status.CHECKED, "")
    return CheckedInput(f"rmsnorm {case}", edge, case.startswith("random"), status, reason, None)


def judged(*checks: CheckedInput) -> FileJudgement:
    return FileJudgement(Path("mine.py"), "rmsnorm", "a GPU", [ProviderJudgement("mine", checks)], [], 2, 0)


def lines(*checks: CheckedInput) -> list[str]:
    made = judged(*checks)
    return [" ".join(line.split()) for line in verdict_lines(made, made.judgements[0])]


PART = [
    *(checked("N=2", edge) for edge in ("random", "zeros")),
    *(checked("random N=4", edge) for edge in ("random", "zeros")),
    *(checked("random N=3", edge, declined=True) for edge in ("random", "zeros", "large")),
]


def test_cases_in_which_a_provider_declined_are_not_counted_as_right() -> None:
    assert "correct yes: 2 kinds of input, in 1 case and on 1 of 2 random shapes" in lines(*PART)
    assert "correct yes: 2 kinds of input, in 1 case and on 1 random shape" in lines(*PART[:4])


def failed(case: str, edge: str, reason: str = "IndexError: no rows") -> CheckedInput:
    return CheckedInput(f"rmsnorm {case}", edge, case.startswith("random"), Status.ERROR, reason, None)


def test_a_provider_that_fails_on_one_edge_input_is_right_except_for_it() -> None:
    """Equal reasons have one line, whatever the number of cases."""
    own = [each for n in range(9) for each in (checked(f"N={n}", "random"), failed(f"N={n}", "no rows"))]
    found = lines(*own)
    assert "correct no: right except for the edge input no rows; 9 of 9 cases failed there" in found
    assert [line for line in found if line.startswith("error")] == ["error in 9 cases (no rows): IndexError: no rows"]
    own += [failed("N=9", "no rows", "another reason"), failed("N=10", "no rows", "another reason")]
    assert "error in 2 cases (no rows): another reason" in lines(*own)


def test_a_provider_that_fails_on_random_inputs_or_on_many_is_not_right_except_for_them() -> None:
    for edges in (["random"], ["no rows", "one NaN", "zeros"]):
        found = lines(checked("N=1", "transposed"), *(failed("N=1", edge) for edge in edges))
        assert "correct no: 1 of 1 case failed" in found
        assert f"error at N=1 ({', '.join(edges)}): IndexError: no rows" in found


def test_a_case_that_is_declined_counts_once_whatever_its_number_of_inputs() -> None:
    assert "unsupported in 1 case: N must be even" in lines(*PART)
    assert '"cases":1' in text(judged(*PART), passed=True).replace(" ", "").replace("\n", "")


def test_a_timed_case_that_is_declined_in_every_session_counts_once() -> None:
    rows = [
        row(n, session=s, status=Status.UNSUPPORTED, reason="N is too long", ms=None) for n in (1, 2) for s in (0, 1)
    ]
    assert list(ProviderJudgement("mine", PART, rows).declined.values()) == [2]


def test_inputs_that_were_declined_were_not_checked() -> None:
    assert '"checked_inputs":4' in text(judged(*PART), passed=True).replace(" ", "")


def test_a_speedup_that_is_just_too_small_has_the_digits_that_show_it() -> None:
    assert too_slow(0.91234, 1.0) == "too slow: 0.912x is less than --min-speedup 1"
    assert too_slow(0.99996, 1.0) == "too slow: 0.99996x is less than --min-speedup 1"
    assert too_slow(1.00000004, 1.0000001) == "too slow: 1.000x is less than --min-speedup 1.0000001"
