"""`kbench compare` as a person and a pipeline use it: exit codes, what is printed where, which files come out."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from common import Kbench
from making import Write, failed, row, sessions

from kbench.comparison.compare import compare_results
from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError


@pytest.mark.slow
def test_a_file_against_itself_passes_every_gate(kbench: Kbench, write: Write) -> None:
    when = {"started_at": "2026-11-20T10:00:00+00:00"}
    path = write("a", [row(n, random.uniform(0.9, 1.1), **when) for n in range(1, 20)])
    gates = ",".join(word for word in Verdict if word != "same")
    done = kbench("compare", path, path, "--fail-on", gates)
    assert done.returncode == 0, done.stderr
    assert "19 same" in done.stdout


@pytest.mark.parametrize(
    ("factor", "gate", "code"),
    [(1.5, "slower", 1), (1.5, "missing,failed", 0), (1.5, None, 0), (0.5, "slower,missing,failed", 0)],
)
def test_the_exit_code_is_the_gates(kbench: Kbench, write: Write, factor: float, gate: str | None, code: int) -> None:
    old, new = write("old", [row(n) for n in range(256)]), write("new", [row(n, factor) for n in range(256)])
    done = kbench("compare", old, new, *(["--fail-on", gate] if gate else []))
    assert done.returncode == code
    assert ("256 slower" if factor > 1 else "256 faster") in done.stdout
    first = " ".join(done.stdout.split())  # a long path is on a line of its own
    assert first.startswith(
        "! gate failed: " if code else f"+ gate passed (--fail-on {gate})" if gate else f"{new} against"
    )
    assert done.stderr == (f"error: gate failed: 256 slower (--fail-on {gate})\n" if code else "")


@pytest.mark.slow
def test_a_row_that_vanished_closes_the_gate(kbench: Kbench, write: Write) -> None:
    old, new = write("old", [row(1), row(2)]), write("new", [row(1, 1.5)])
    assert kbench("compare", old, new).returncode == 0
    done = kbench("compare", old, new, "--fail-on", "missing")
    assert done.returncode == 1 and "1 missing" in done.stdout


@pytest.mark.slow
def test_shuffled_rows_give_the_same_report(kbench: Kbench, write: Write) -> None:
    rng = random.Random(2)
    rows = [r for n in (1, 20, 300) for r in sessions(1.0, 1.01, 0.99, n=n)]
    old, new = write("old", rows), write("new", [*rows[:-1], failed(300, session=2)])
    before = kbench("compare", old, new)
    for path in (old, new):
        header, *lines = path.read_text().splitlines()
        rng.shuffle(lines)
        path.write_text("\n".join([header, *lines]) + "\n")
    after = kbench("compare", old, new)
    assert (after.returncode, after.stdout) == (before.returncode, before.stdout)


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


@pytest.mark.slow
def test_nothing_in_common_is_one_sentence(kbench: Kbench, write: Write, tmp_path: Path) -> None:
    write("old", [row(n) for n in range(200)])
    write("new", [row(n) for n in range(200, 400)])
    done = kbench("compare", "old.csv", "new.csv", "--fail-on", "missing", "--export", "markdown=c.md")
    sentence = (
        "nothing to compare: old.csv and new.csv have no row in common: "
        "N is 0, 1, 2, ... in old.csv and 200, 201, 202, ... in new.csv"
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"error: {sentence}\n")
    assert sentence in (tmp_path / "c.md").read_text() and len((tmp_path / "c.md").read_text()) < 500


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "longest"), [("60", 60), ("80", 80), ("", 120)])
def test_a_log_is_as_wide_as_columns_says(
    kbench: Kbench, write: Write, monkeypatch: pytest.MonkeyPatch, columns: str, longest: int
) -> None:
    rows = [row(n, provider=provider) for n in range(5) for provider in ("triton", "torch-native-compiled")]
    old, new = write("old", rows), write("new", [replace(r, ms=1.01) for r in rows])
    monkeypatch.setenv("COLUMNS", columns)
    lines = kbench("compare", f"old={old}", f"new={new}", "--vary", "a" * 20).stdout.splitlines()
    widest = max(len(line) for line in lines if "env.json" not in line)
    assert widest <= longest and (columns or widest > 80)


@pytest.mark.slow
def test_exports_go_to_files_and_one_may_go_to_stdout(kbench: Kbench, write: Write, tmp_path: Path) -> None:
    old, new = write("old", [row(1), row(2)]), write("new", [row(1), row(2, 1.5)])
    done = kbench("compare", old, new, "--export", "json=out/c.json", "--export", "markdown=c.md")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "c.json").read_text())
    assert [line["verdict"] for line in report["rows"]] == ["unclear", "slower"]
    assert report["rows"][1]["key"] == {
        "operator": "softmax", "provider": "triton", "params": "", "M": 4096, "N": 2, "dtype": "float32",
    }  # fmt: skip
    assert report["rows"][1]["ratio"] == pytest.approx(1.5)
    assert "1 slower" in (tmp_path / "c.md").read_text()
    piped = kbench("compare", old, new, "--export", "json=-")
    assert json.loads(piped.stdout) == report


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--export", "yaml=x"], "--export 'yaml=x': expected FORMAT=FILE; the formats are markdown,"),
        (["--export", "json"], "--export 'json': expected FORMAT=FILE"),
        (["--export", "json=/proc/nowhere/c.json"], "/proc/nowhere"),
        (["--fail-on", "regressed"], '--fail-on: unknown verdict "regressed"; choose from slower,'),
        (["--only", "interesting"], '--only: unknown verdict "interesting"; choose from changed, slower,'),
        (["--sort", "colour"], '--sort: unknown order "colour"'),
        (["--margin", "wide"], "--margin 'wide' is not a share; write 2% or 0.02"),
        (["--margin", "200%"], "--margin: must be more than 0% and less than 100%; give a share"),
        (["--metric", "watts"], '--metric: unknown metric "watts"; choose from ms,'),
        (["--where", "N>9"], "N>9"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(kbench: Kbench, write: Write, options: list[str], message: str) -> None:
    old = write("old", [row(1)])
    done = kbench("compare", old, write("new", [row(1)]), *options)
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ") and message in line


def test_a_label_or_a_file_that_is_given_twice(write: Write) -> None:
    a, b = write("a", [row(1)]), write("b", [row(1)])
    with pytest.raises(UsageError, match=r"two files have the label base; give each its own label: old=a\.csv"):
        compare_results(f"base={a}", f"base={b}")
    with pytest.raises(UsageError, match="a comparison has two files"):
        compare_results(a, b, a)


@pytest.mark.slow
def test_a_file_that_is_not_there(kbench: Kbench, write: Write) -> None:
    old = write("old", [row(1)])
    done = kbench("compare", old, "gone.csv")
    assert done.returncode == 2 and done.stderr.startswith("error: gone.csv: no such file")


@pytest.mark.slow
def test_hidden_rows_are_counted(kbench: Kbench, write: Write) -> None:
    declined = failed(44, status="unsupported")
    old = write("old", [*(row(n) for n in (11, 22, 33)), declined])
    new = write("new", [row(11, 2.0), row(22), row(33), declined])
    done = kbench("compare", old, new, "--only", "changed")
    assert "11" in done.stdout and "3 rows" in done.stdout and "1 slower, 2 unclear, 1 untimed" in done.stdout
    assert not any(line.split()[:1] in (["22"], ["33"], ["44"]) for line in done.stdout.splitlines())


@pytest.mark.slow
def test_in_ci_a_report_without_a_gate_says_so(kbench: Kbench, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = write("old", [row(1)]), write("new", [row(1, 9.0)])
    monkeypatch.setenv("CI", "true")
    done = kbench("compare", old, new)
    assert done.returncode == 0 and "without --fail-on, the exit code does not depend on the verdicts" in done.stderr
    assert "without --fail-on" not in kbench("compare", old, new, "--fail-on", "missing").stderr


@pytest.mark.slow
def test_in_a_github_job(kbench: Kbench, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    summary, outputs = tmp_path / "summary.md", tmp_path / "outputs"
    summary.write_text("# earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    old, new = write("old", [row(1), row(2)]), write("new", [row(1, 9.0)])
    done = kbench("compare", old, new, "--github", "--fail-on", "slower")
    assert done.returncode == 1
    assert "::error" in done.stdout and "::warning" in done.stdout
    assert summary.read_text().startswith("# earlier\n") and "1 slower" in summary.read_text()
    assert "slower=1" in outputs.read_text().splitlines()


@pytest.mark.slow
def test_a_github_job_is_told_that_nothing_was_comparable(
    kbench: Kbench, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    done = kbench(
        "compare", write("old", [row()]), write("new", [row(timer="graph")]), "--github", "--fail-on", "slower"
    )
    assert done.returncode == 3 and "passed=false" in (tmp_path / "outputs").read_text().splitlines()


@pytest.mark.slow
def test_a_misspelt_name_to_vary_is_told(kbench: Kbench, write: Write) -> None:
    a, b = write("a", [row()]), write("b", [row()])
    told = kbench("compare", a, b, "--vary", "tiemr,device").stdout
    assert '--vary tiemr: no file has this property; did you mean "timer"?' in told


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--export", "json=-", "--github"), ("--export", "json=-", "--export", "csv=-"),
                  ("--export", "json=x", "--export", "csv=x")]
)  # fmt: skip
def test_two_reports_at_one_place_are_refused(kbench: Kbench, write: Write, arguments: tuple[str, ...]) -> None:
    path = write("a", [row()])
    done = kbench("compare", path, path, *arguments)
    assert done.returncode == 2 and done.stdout == "" and "--export" in done.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_failure(write: Write, tmp_path: Path) -> None:
    """`kbench compare ... | head` in a shell with pipefail: the table is longer than a pipe holds."""
    a, b = (write(name, [row(n, ms) for n in range(1, 2000)]) for name, ms in (("a", 1.0), ("b", 1.1)))
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "kbench", "compare", a, b, "--export", f"json={report}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 0
    assert len(json.loads(report.read_text())["rows"]) == 1999


@pytest.mark.slow
def test_an_axis_called_as_a_column_keeps_its_values(kbench: Kbench, write: Write) -> None:
    path = write("a", [row()])
    path.write_text(path.read_text().replace(",M,", ",q,", 1))
    [line] = csv.DictReader(kbench("compare", path, path, "--export", "csv=-").stdout.splitlines())
    assert line["axis_q"] == "4096"


@pytest.mark.slow
def test_what_a_damaged_environment_file_says_reaches_no_terminal(kbench: Kbench, write: Write) -> None:
    a, b = write("a", [row()]), write("b", [row(ms=1.5)])
    a.with_suffix(".env.json").write_text(json.dumps({"packages": {"x\x1b[2J": "1"}}))
    b.with_suffix(".env.json").write_text(json.dumps({"packages": {"x\x1b[2J": "2"}}))
    done = kbench("compare", a, b)
    assert done.returncode == 0 and "\x1b" not in done.stdout and "packages.x" in done.stdout
    b.with_suffix(".env.json").write_text("[" * 100_000)
    assert kbench("compare", a, b).returncode == 0
