"""What `kbench judge` says of a provider that fails on or declines some of its inputs."""

from __future__ import annotations

from dataclasses import replace

from making import row

from kbench.errors import ExitStatus
from kbench.judging.verdict import VERSION, JudgedFile, judge_provider
from kbench.judging.verdict_text import verdict_lines
from kbench.results.row import Row
from kbench.results.vocabulary import Status


def checked(n: int, edge: str, status: Status = Status.CHECKED, reason: str = "") -> Row:
    return replace(row(n, None, "mine", status=status, reason=reason), edge=edge)


def declined(n: int, edge: str) -> Row:
    return checked(n, edge, Status.UNSUPPORTED, "N must be even")


def failed(n: int, edge: str, reason: str = "IndexError: no rows") -> Row:
    return checked(n, edge, Status.ERROR, reason)


def lines(*checks: Row) -> list[str]:
    provider = judge_provider("mine", checks)
    judged = JudgedFile(
        schema=VERSION,
        file="mine.py",
        operator="rmsnorm",
        device="a GPU",
        passed=True,
        random_shapes=2,
        cases=0,
        interrupted=False,
        noise="",
        providers=[provider],
        exit_status=ExitStatus.OK,
    )
    return [" ".join(line.split()) for line in verdict_lines(judged, provider, None)]


PART = [
    *(checked(2, edge) for edge in ("random", "zeros")),
    *(checked(4, edge) for edge in ("random", "zeros")),
    *(declined(3, edge) for edge in ("random", "zeros", "large")),
]


def test_inputs_and_cases_that_a_provider_declined_are_not_counted_as_right() -> None:
    assert "correct yes: 4 inputs, in 2 cases" in lines(*PART)
    assert "unsupported in 1 case: N must be even" in lines(*PART)
    assert judge_provider("mine", PART).checked_inputs == 4


def test_a_provider_that_fails_on_one_edge_input_is_right_except_for_it() -> None:
    """Equal reasons have one line, whatever the number of cases."""
    own = [each for n in range(9) for each in (checked(n, "random"), failed(n, "no rows"))]
    said = lines(*own)
    assert "correct no: right except for the edge input no rows; 9 of 9 cases failed there" in said
    assert [line for line in said if line.startswith("error")] == ["error in 9 cases (no rows): IndexError: no rows"]
    own += [failed(9, "no rows", "another reason"), failed(10, "no rows", "another reason")]
    assert "error in 2 cases (no rows): another reason" in lines(*own)


def test_a_provider_that_fails_on_random_inputs_or_on_many_is_not_right_except_for_them() -> None:
    for edges in (["random"], ["no rows", "one NaN", "zeros"]):
        said = lines(checked(1, "transposed"), *(failed(1, edge) for edge in edges))
        assert "correct no: 1 of 1 case failed" in said
        assert f"error at M=4096 N=1 float32 ({', '.join(edges)}): IndexError: no rows" in said


def test_a_timed_case_that_is_declined_in_every_session_counts_once() -> None:
    rows = [
        row(n, session=s, status=Status.UNSUPPORTED, reason="N is too long", ms=None) for n in (1, 2) for s in (0, 1)
    ]
    assert [each.cases for each in judge_provider("mine", PART, rows).declined] == [2]
