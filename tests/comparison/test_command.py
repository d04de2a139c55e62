"""`kbench compare` as a person and a pipeline use it: exit codes, what is printed where, which files come out."""

from __future__ import annotations

import pytest
from common import Kbench
from making import Write, failed, row

from kbench.comparison.compare import compare_results
from kbench.errors import UsageError


@pytest.mark.slow
def test_what_cannot_be_compared_is_exit_code_3(kbench: Kbench, write: Write) -> None:
    old = write("old", [row(1), row(2)])
    other = kbench("compare", old, write("other", [row(1, device="NVIDIA B200"), row(2, device="NVIDIA B200")]))
    assert (
        other.returncode == 3
        and "nothing was comparable: no row has values that were measured in the same way" in other.stderr
    )
    no_values = kbench("compare", old, old, "--metric", "tflops")
    assert no_values.returncode == 3 and "no row has a value in every session on both sides" in no_values.stderr
    declined = write("declined", [failed(1, status="unsupported"), failed(2)])
    untimed = kbench("compare", declined, declined)
    assert untimed.returncode == 3 and "no row has a value in every session on both sides; the table" in untimed.stderr
    partly = write("partly", [row(1, 1.5), row(2, case_hash="changed")])
    assert kbench("compare", old, partly).returncode == 0
    strict = kbench("compare", old, partly, "--strict")
    assert strict.returncode == 3
    assert strict.stderr == "error: 1 row was not measured in the same way on both sides (--strict)\n"
    flaky = [row(2, session=0), failed(2, session=1)]
    a, b = (write(name, [row(1, ms), *flaky]) for name, ms in (("a", 1.0), ("b", 1.5)))
    assert kbench("compare", a, b, "--strict").returncode == 0, "the same conditions"
    a, b = (write(name, [row(1, ms), failed(2, status="unsupported")]) for name, ms in (("a", 1.0), ("b", 1.5)))
    assert kbench("compare", a, b, "--strict").returncode == 0


def test_a_label_or_a_file_that_is_given_twice(write: Write) -> None:
    a, b = write("a", [row(1)]), write("b", [row(1)])
    with pytest.raises(UsageError, match=r"two files have the label base; give each its own label: old=a\.csv"):
        compare_results(f"base={a}", f"base={b}")
    with pytest.raises(UsageError, match="a comparison has two files"):
        compare_results(a, b, a)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--export", "json=-", "--github"), ("--export", "json=-", "--export", "csv=-"),
                  ("--export", "json=x", "--export", "csv=x")]
)  # fmt: skip
def test_two_reports_at_one_place_are_refused(kbench: Kbench, write: Write, arguments: tuple[str, ...]) -> None:
    path = write("a", [row()])
    done = kbench("compare", path, path, *arguments)
    assert done.returncode == 2 and done.stdout == "" and "--export" in done.stderr
