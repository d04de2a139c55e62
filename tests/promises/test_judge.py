"""`kbench judge`: right, trusted, deterministic and how fast; and the cheats that it finds."""

from __future__ import annotations

import json
import math
import shlex
import signal
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import torch

from promises.outside import (
    QUICK,
    ROOT,
    Ended,
    Kbench,
    MadeOnce,
    Write,
    keep,
    kept,
    rows_of,
    run_kbench,
    start,
    wait_for,
)

CASE = ("--set", "mode=forward", "--set", "M=8", "--set", "N=64")
JUDGE = ("--against", "softmax", "--baseline", "torch-native", *QUICK, *CASE)

FILE = """
import os
import time

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("honest")
def honest(x):
    wide = x.double()
    e = torch.exp(wide - wide.amax(-1, keepdim=True)) if x.shape[-1] else wide
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


@softmax.provider("slow")
def slow(x):
    time.sleep(0.001)
    return honest(x)


OTHERS = {
    "wrong-if-square": lambda x: honest(x) * (2 if x.shape[0] == x.shape[1] != 1 else 1),
    "wrong-for-nan": lambda x: honest(x.nan_to_num(nan=0.0, posinf=float("inf"), neginf=-float("inf"))),
    "disguised": lambda x: torch.nn.Softmax(dim=1)(x),
    "stored": lambda x: stored.setdefault(x.shape, honest(x)).clone(),
    "crashes": lambda x: os.abort(),
    "hangs": lambda x: time.sleep(1000),
}
stored = {}
for name, function in OTHERS.items():
    softmax.provider(name)(function)


@softmax.provider("no-empty-rows")
def no_empty_rows(x):
    if x.shape[1] == 0:
        raise IndexError("a row has no elements")
    return torch.softmax(x, -1)


@softmax.provider("by-chance")
def by_chance(x):
    y = honest(x)
    return torch.where(torch.rand_like(y) < 0.5, y, torch.nextafter(y, torch.ones_like(y)))


@softmax.provider("declines", supports=lambda case: "only for N = 3")
def declines(x):
    return x
"""

MANY = "{operator: softmax, providers: [torch-native], sweep: {M: [1, 2, 3, 4], N: [8, 16, 24, 32]}}"
"""A config with more cases than a judgement times."""


EXCLUSIVE = """
import fcntl
import os

lock = open(__file__ + ".lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    os._exit(1)
"""
"""Lets one process in at a time, as a device in compute mode EXCLUSIVE_PROCESS does."""


@pytest.fixture
def judged(made_once: MadeOnce) -> Path:
    """The judgement of a file with honest, slow, wrong and disguised kernels; of some as text, where a device takes one
    process; and of one in a config with many cases."""

    def make(folder: Path) -> None:
        (folder / "mine.py").write_text(FILE)
        # two of the shapes of this seed are squares
        of_seed = ("judge", "mine.py", *JUDGE, "--shapes", 3, "--seed", 9, "--json", "--set", "build_timeout_s=3")
        keep(run_kbench(*of_seed, "--out", "all", folder=folder), folder, "all")
        (folder / "exclusive.py").write_text(EXCLUSIVE)
        (folder / "one.yaml").write_text(f"plugins: [exclusive.py]\n{(ROOT / 'configs' / 'softmax.yaml').read_text()}")
        text = ("judge", "mine.py", "--against", "one.yaml", *JUDGE[2:], "--shapes", 0)
        keep(run_kbench(*text, "--provider", "honest,no-empty-rows", folder=folder), folder, "text")
        (folder / "many.yaml").write_text(MANY)
        many = ("judge", "mine.py", "--against", "many.yaml", *QUICK, "--shapes", 0, "--provider", "honest")
        keep(run_kbench(*many, "--min-speedup", 1000, "--json", folder=folder), folder, "gated")

    return made_once("judged", make)


def verdicts(ended: Ended) -> dict[str, dict[str, Any]]:
    """What a judgement says of each provider."""
    return {verdict["provider"]: verdict for verdict in json.loads(ended.out)["providers"]}


def test_the_json_of_a_judgement_follows_its_schema(judged: Path, kbench: Kbench) -> None:
    schema = json.loads(kbench("schema", "judge").out)
    for name in ("all", "gated"):
        document = json.loads(kept(judged, name).out)
        jsonschema.validate(document, schema)
        assert {"file", "operator", "device", "seed", "passed", "random_shapes", "cases", "providers"} <= set(document)


def test_each_provider_has_a_verdict_and_the_codes_of_its_reasons(judged: Path) -> None:
    words = {name: (verdict["verdict"], verdict["reasons"]) for name, verdict in verdicts(kept(judged, "all")).items()}
    assert torch.accelerator.is_available() or "profile cpu of softmax.yaml applies" in kept(judged, "all").err
    assert words["honest"] == ("pass", []) and words["declines"] == ("unknown", ["not-checked"])
    assert words["wrong-for-nan"] == ("wrong", ["wrong"]) and words["no-empty-rows"] == ("wrong", ["error"])
    assert words["disguised"] == ("not-trusted", ["same-ops"])
    gated = verdicts(kept(judged, "gated"))["honest"]
    assert (gated["verdict"], gated["reasons"]) == ("too-slow", ["too-slow"])


def test_a_wrong_kernel_gets_the_first_wrong_element_and_a_command_that_makes_it_again(
    judged: Path, kbench: Kbench, write: Write
) -> None:
    wrong = verdicts(kept(judged, "all"))["wrong-if-square"]
    failure, element = wrong["failures"][0], wrong["failures"][0]["element"]
    assert failure["dtype"] == "float32" and failure["axes"]["M"] == failure["axes"]["N"]
    assert element["output"] == "y" and element["index"] == [0, 0]
    assert float(element["value"]) == pytest.approx(2 * float(element["expected"]))
    assert any("no size that the config names" in hint for hint in wrong["hints"])
    write("mine.py", FILE)
    program, *words = shlex.split(failure["reproduce"])
    again = kbench(*words, "--json")
    assert program == "kbench" and again.code == 1
    jsonschema.validate(json.loads(again.out), json.loads(kbench("schema", "check").out))
    [provider] = json.loads(again.out)["providers"]
    assert provider["failures"][0] | {"cases": 1} == failure | {"cases": 1}


def test_without_a_seed_a_new_one_is_drawn_and_named(judged: Path) -> None:
    assert json.loads(kept(judged, "all").out)["seed"] == 9 != json.loads(kept(judged, "gated").out)["seed"]
    assert "--seed " in kept(judged, "text").out


def test_a_dozen_cases_of_a_config_are_timed_unless_the_user_chooses(judged: Path) -> None:
    ended = kept(judged, "gated")
    document = json.loads(ended.out)
    [speed] = document["providers"][0]["baselines"]
    assert (document["cases"], document["of_cases"]) == (12, 16) and sum(speed["outcomes"].values()) == 12
    assert sum(group["cases"] for group in speed["groups"]) == 12 and len(speed["groups"]) == 3
    assert "M=1 N=8" in ended.err and "M=4 N=32" in ended.err
    assert len(ended.out.splitlines()) < 150, "no list of cases; a noisy row adds a flag, and so a line"


def test_a_right_kernel_is_correct_trusted_deterministic_and_passes_however_slow(judged: Path) -> None:
    honest = verdicts(kept(judged, "all"))["honest"]
    assert honest["correct"] and honest["trusted"] and honest["deterministic"]
    assert honest["failures"] == honest["doubts"] == [] and honest["timed_cases"] == 1
    [baseline] = honest["baselines"]
    low, high = baseline["interval"]
    assert baseline["baseline"] == "torch-native" and low <= baseline["speedup"] <= high
    [slow] = verdicts(kept(judged, "all"))["slow"]["baselines"]
    assert 0 < slow["speedup"] < 0.2 and slow["speedup"] < baseline["speedup"]
    for word in ("honest", "mine.py", "softmax", "correct", "trust", "deterministic", "speed", "torch-native"):
        assert word in kept(judged, "text").out


def test_min_speedup_fails_a_slower_kernel_and_more_cases_of_a_session_do_not_narrow_the_interval(judged: Path) -> None:
    ended = kept(judged, "gated")
    honest = verdicts(ended)["honest"]
    assert ended.code == 1 and json.loads(ended.out)["passed"] is False
    assert honest["correct"] and honest["trusted"]
    [baseline] = honest["baselines"]
    assert baseline["worst"]["case"] != baseline["best"]["case"]
    of_fewer_cases = [math.log(group["interval"][1] / group["interval"][0]) for group in baseline["groups"]]
    low, high = baseline["interval"]
    assert math.log(high / low) >= min(of_fewer_cases) - 1e-9


def test_a_kernel_that_is_wrong_for_some_random_shapes_is_not_timed_and_the_case_is_named(judged: Path) -> None:
    wrong = verdicts(kept(judged, "all"))["wrong-if-square"]
    assert kept(judged, "all").code == 1 and json.loads(kept(judged, "all").out)["passed"] is False
    assert wrong["correct"] is False and wrong["timed_cases"] == 0 and wrong["baselines"] == []
    assert "not right" in wrong["untimed"] and wrong["left_out_cases"] == 0
    for failure in wrong["failures"]:
        sizes = dict(word.split("=") for word in failure["case"].split() if "=" in word)
        assert failure["status"] == "wrong" and sizes["M"] == sizes["N"]
    assert wrong["failures"]


def test_a_stored_result_of_an_earlier_input_is_called_so_unless_one_element_differs(judged: Path) -> None:
    answer = verdicts(kept(judged, "all"))
    stored = {failure["input"]: failure["reason"] for failure in answer["stored"]["failures"]}
    assert {name for name, reason in stored.items() if "an earlier input" not in reason} == {"one +inf"}
    others = [failure for name in answer for failure in answer[name]["failures"] if name != "stored"]
    assert others and not any("an earlier input" in failure["reason"] for failure in others)


def test_a_kernel_that_fails_on_empty_rows_only_is_right_except_for_them(judged: Path) -> None:
    ended = kept(judged, "text")
    assert ended.code == 1
    [line] = [line for line in ended.out.splitlines() if "right except for" in line]
    assert "no columns" in line
    assert sum("a row has no elements" in line for line in ended.out.splitlines()) == 1


def test_a_device_that_takes_one_process_at_a_time_gives_a_verdict_and_a_note(judged: Path) -> None:
    ended = kept(judged, "text")
    assert any(line.split()[:2] == ["correct", "yes:"] for line in ended.out.splitlines())
    assert "no sign of tampering" in ended.out and "x as fast as torch-native" in ended.out
    assert "one process runs the file and judges it" in ended.err and "EXCLUSIVE_PROCESS" in ended.err


def test_bits_that_differ_are_not_deterministic_and_who_declines_is_neither_right_nor_wrong(judged: Path) -> None:
    by_chance, declines = (verdicts(kept(judged, "all"))[name] for name in ("by-chance", "declines"))
    assert by_chance["correct"] and by_chance["trusted"] and by_chance["deterministic"] is False
    assert declines["correct"] is None and declines["declined"][0]["reason"] == "only for N = 3"


def test_the_rows_of_a_judgement_are_kept_where_out_says_and_nowhere_else(judged: Path) -> None:
    rows = rows_of(judged / "all" / "softmax.csv")
    assert {"honest", "torch-native"} <= {row["provider"] for row in rows if row["status"] == "ok"}
    assert not (judged / "results").exists()


WAITS = """
import time
from pathlib import Path

import torch

import kbench


@kbench.operator("softmax").provider("waits")
def waits(x):
    if x.shape[-1] == 1024:
        Path("waits").touch()
        time.sleep(100)
    return torch.softmax(x.double(), -1).to(x.dtype)
"""


@pytest.mark.parametrize(
    "command",
    [("judge", "waits.py", "--against", "softmax"), ("check", "softmax", "--plugin", "waits.py", "--only", "waits")],
    ids=["judge", "check"],
)
def test_a_check_that_a_signal_ends_prints_its_answer_in_which_nothing_passes(
    folder: Path, write: Write, command: tuple[str, ...]
) -> None:
    write("waits.py", WAITS)
    process = start(*command, *CASE, "--set", "N=64,1024", "--json", folder=folder)
    wait_for((folder / "waits").exists, process)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    answer = json.loads(out)
    [provider] = answer["providers"]
    assert process.returncode == 130 and answer["interrupted"] and not answer["passed"]
    assert provider["verdict"] == "unknown" and provider["correct"] is None and provider["failures"] == []
    assert provider["checked_inputs"] > 0 and provider["left_out_cases"] >= 1


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["absent.py", "--against", "softmax"], ["absent.py", "no such file"]),
        (["mine.py"], ["--against"]),
        (["mine.py", "--against", "softmax", "--min-speedup", "inf"], ["--min-speedup", "inf"]),
    ],
    ids=["no file", "no config named", "no number"],
)
def test_a_judgement_that_cannot_be_made_is_a_sentence_and_exit_code_2(
    kbench: Kbench, write: Write, arguments: list[str], words: list[str]
) -> None:
    write("mine.py", FILE)
    ended = kbench("judge", *arguments)
    assert ended.code == 2 and all(word in ended.err for word in words) and "Traceback" not in ended.err


FIRST = """
import os

import kbench


def largest(x, *, k):
    if len(x) == 64 or (len(x), k) == (1, 4):
        os._exit(3)
    return x.topk(k)[0]


tensors = {"inputs": {"x": kbench.Tensor("N")}, "outputs": {"y": kbench.Tensor("k")}}
first = kbench.Operator("first", axes=("N", "k"), **tensors, reference=largest)
first.provider("base", factory=True)(lambda case: lambda x: x.topk(case.k)[0])
"""


def test_where_the_reference_fails_or_ends_its_process_no_provider_is_to_blame_and_the_case_is_named(
    kbench: Kbench, write: Write
) -> None:
    """With k above N there is no answer, also where both are large."""
    write("first.py", FIRST)
    write("first.yaml", "{operator: first, plugins: [first.py], sweep: {N: [32, 64], k: 4}, providers: [base]}")
    sort = "lambda case: lambda x: x.sort(descending=True)[0][: case.k].clone()"
    write("mine.py", f"import kbench\nkbench.operator('first').provider('sort', factory=True)({sort})\n")
    ended = kbench("judge", "mine.py", "--against", "first.yaml", "--shapes", 12, "--seed", 1, "--json")
    provider = verdicts(ended)["sort"]
    assert ended.code == 3 and provider["verdict"] == "unknown" and provider["failures"] == []
    assert provider["left_out_cases"] == 1 and provider["checked_inputs"] > 10
    lines = ended.err.splitlines()
    assert any("N=64 k=4" in line and "exited with code 3" in line and "mend" in line for line in lines)
    assert any("N=32 k=4" in line and "N=1" in line and "exited with code 3" in line for line in lines)
    [refused] = [line for line in lines if "random shapes, which the operator does not" in line]
    assert int(refused.split()[2]) + json.loads(ended.out)["random_shapes"] == 12 and len(refused) < 300


# --- champion and candidates

CHAMPION = """
import time

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("mine")
def mine(x):
    time.sleep(@SLEEP_S@)
    e = (x - x.amax(-1, keepdim=True)).exp() if x.shape[-1] else x
    return e / e.sum(-1, keepdim=True)
"""


@pytest.fixture
def ledger(made_once: MadeOnce) -> Path:
    """The judgements of a candidate that is faster than the champion, of one that is slower, and of torch's own function."""

    def make(folder: Path) -> None:
        for name, sleep_s in {"best": 0.01, "faster": 0.0, "slower": 0.02}.items():
            (folder / f"{name}.py").write_text(CHAMPION.replace("@SLEEP_S@", str(sleep_s)))
        disguised = CHAMPION[: CHAMPION.index("    time")] + "    return torch.softmax(x, -1)\n"
        (folder / "disguised.py").write_text(disguised)
        for name in ("faster", "slower", "disguised"):
            against = ("--against", "softmax", "--champion", "best.py", "--ledger", "ledger")
            options = (*against, *QUICK, *CASE, "--shapes", 0, "--json")
            keep(run_kbench("judge", f"{name}.py", *options, folder=folder), folder, name)

    return made_once("ledger", make)


def test_a_candidate_is_better_only_after_a_fresh_confirmation(ledger: Path) -> None:
    ended = kept(ledger, "faster")
    verdict = verdicts(ended)["mine"]
    contest = verdict["contest"]
    assert ended.code == 0 and verdict["verdict"] == "better" and verdict["reasons"] == []
    assert contest["better"] and contest["speedup"] > 2 and contest["champion"] == "mine@best"
    assert contest["candidate_number"] == 1 and contest["alpha"] <= 0.05 and contest["evidence"] >= 1 / contest["alpha"]
    screen, confirmation = (
        {row["session"] for row in rows_of(ledger / file) if row["role"] == "provider"} for file in contest["files"]
    )
    assert len(screen) + len(confirmation) == contest["sessions"] and len(confirmation) >= 5


def test_a_slower_candidate_stops_after_one_session_and_is_not_better(ledger: Path) -> None:
    ended = kept(ledger, "slower")
    verdict = verdicts(ended)["mine"]
    assert ended.code == 1 and (verdict["verdict"], verdict["reasons"]) == ("not-better", ["not-better"])
    assert verdict["contest"]["candidate_number"] == 2 and verdict["contest"]["sessions"] == 1
    assert verdict["contest"]["alpha"] is None and len(verdict["contest"]["files"]) == 1


def test_a_candidate_that_is_not_trusted_is_not_promoted_however_fast(ledger: Path) -> None:
    verdict = verdicts(kept(ledger, "disguised"))["mine"]
    assert kept(ledger, "disguised").code == 1 and verdict["reasons"] == ["same-ops"]
    assert verdict["verdict"] == "not-trusted" and verdict["contest"] is None and verdict["baselines"][0]["speedup"] > 2


def test_a_ledger_is_a_folder_of_results_files(ledger: Path) -> None:
    files = sorted((ledger / "ledger").glob("*.csv"))
    assert [file.stem for file in files] == ["0001-confirm", "0001-screen", "0002-screen", "0003-screen"]
    for file in files:
        assert {"mine", "mine@best"} <= {row["provider"] for row in rows_of(file) if row["status"] == "ok"}


def test_a_contest_that_a_signal_ends_says_that_there_is_no_verdict_and_where_its_rows_are(
    write: Write, folder: Path
) -> None:
    for name in ("best", "new"):
        write(f"{name}.py", CHAMPION.replace("@SLEEP_S@", "0.01"))
    contest = ("--champion", "best.py", "--ledger", "ledger", "--shapes", 0)
    process = start("judge", "new.py", "--against", "softmax", *contest, *QUICK, *CASE, folder=folder)
    wait_for((folder / "ledger").exists, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == ""
    assert "before there was a verdict" in err and "is in ledger" in err


def test_a_champion_needs_a_ledger_and_no_other_folder(kbench: Kbench, write: Write, folder: Path) -> None:
    write("mine.py", FILE)
    write("best.py", CHAMPION.replace("@SLEEP_S@", "0"))
    alone = kbench("judge", "mine.py", "--against", "softmax", "--champion", "best.py")
    assert alone.code == 2 and "--ledger" in alone.err
    elsewhere = kbench(
        "judge", "mine.py", "--against", "softmax", "--champion", "best.py", "--ledger", "l", "--out", "o"
    )
    assert elsewhere.code == 2 and "--out" in elsewhere.err
    assert not (folder / "l").exists()


# --- cheats

CHEATS = """
import importlib.util
from pathlib import Path

import kbench

for name in @NAMES@:
    spec = importlib.util.spec_from_file_location(name, Path("@FOLDER@", name + ".py"))
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@kbench.operator("softmax").provider("honest")
def honest(x):
    e = (x - x.amax(-1, keepdim=True)).exp() if x.shape[-1] else x
    return e / e.sum(-1, keepdim=True)
"""
"""A file that registers the providers of these files of tests/cheats."""

FOLDER = ROOT / "tests" / "cheats"
ON_A_DEVICE = ("streams",)
AT_IMPORT = ("patched_clock_at_import", "replaced_operator")
ALONE = ("false_times", "replaced_judge")
"""What these replace, all providers find when they are imported or built."""


def line_of(call: str) -> str:
    """The place of this call among the cheats that look at what is not theirs: `looking.py:12`."""
    lines = (FOLDER / "looking.py").read_text().splitlines()
    return f"looking.py:{next(number for number, line in enumerate(lines, 1) if call in line)}"


TAMPERED = {
    "changed_reference": "softmax.reference",
    "forked_child": f"os.fork at {line_of('os.fork()')}",
    "frame_of_an_exception": f"callers with tb_frame at {line_of('.tb_frame')}",
    "intercepted_torch": "torch function modes",
    "new_code_in_do_bench": "do_bench",
    "only_when_checked": f"callers with sys._getframe at {line_of('= sys._getframe()')}",
    "patched_check": "check.compared",
    "patched_clock": "perf_counter",
    "patched_clock_at_import": "perf_counter",
    "patched_do_bench": "do_bench",
    "patched_equality": "torch.equal",
    "patched_event": "elapsed_time",
    "patched_profiler": "profile.stop",
    "patched_statistics": "builtins.round, statistics.median",
    "patched_synchronize": "synchronize",
    "replaced_baseline": "torch-native",
    "replaced_driver": "driver of Triton",
    "replaced_operator": "torch.library",
    "slow_baseline": "torch.softmax",
    "stolen_answer": f"gc.get_objects at {line_of('gc.get_objects()')}",
    "traced_harness": "sys.setprofile",
}
"""The cheats that are `tampered`, and what a reason names."""

SAME_OPS = {
    "beside_nothing": "torch-native",
    "global_state": "default_dtype",
    "renamed_baseline": "torch-native",
}
"""Those that run what the baseline runs, and what a reason names: it may be a setting that was put back."""

WRONG = {
    "address_cache": "wrong",
    "always_equal": "Agreeable",
    "batch_and_skip": "while it was timed",
    "constant_output": "element",
    "fingerprint_cache": "while it was timed",
    "half_of_the_rows": "elements",
    "idle_pool": "another thread",
    "known_answers": "element",
    "lazy_after_many_calls": "wrong",
    "lazy_container": "0 values",
    "lazy_output": "Lazy",
    "lower_precision": "computing in bfloat16",
    "other_thread": "another thread",
    "raises_when_timed": "no more",
    "replaced_judge": "element",
    "same_memory": "same memory",
    "stale_memory": "element",
    "version_cache": "wrong",
    "zeroed_input": "changed its input x",
}
"""Those whose outputs are wrong, late or missing, and what a reason names."""

FALSE_TIMES = {"claimed_hundredth": "at least", "refused_clock": "took its time", "slowed_baseline": "torch-native"}
"""Those that claim false times, and what the reason names."""

NO_CHEATS_HERE = ["changed_rows_only", "honest", "value_cache"]
"""Each output of them is computed: kbench changes the inputs before every timed call."""


@pytest.fixture
def cheats(made_once: MadeOnce) -> Path:
    def make(folder: Path) -> None:
        files = {name: [name] for name in ALONE} | {"at_import": list(AT_IMPORT)}
        files["cheats"] = sorted({path.stem for path in FOLDER.glob("*.py")} - {*ON_A_DEVICE, *AT_IMPORT, *ALONE})
        for file, names in files.items():
            text = CHEATS.replace("@NAMES@", repr(names)).replace("@FOLDER@", str(FOLDER))
            (folder / f"{file}.py").write_text(text)
            # some cheats begin after thirty calls, and others look only at the first row, which seldom changes among many
            longer = ("--set", "rep_ms=20", "--set", "M=64")
            command = ("judge", f"{file}.py", *JUDGE, *longer, "--shapes", 0, "--json")
            keep(run_kbench(*command, folder=folder), folder, file)

    return made_once("cheats", make)


def judged_cheats(cheats: Path) -> dict[str, dict[str, Any]]:
    by_file = [verdicts(kept(cheats, file)) for file in (*ALONE, "at_import", "cheats")]
    return {name: verdict for of_file in by_file for name, verdict in of_file.items()}


def test_a_cheat_is_found_whatever_it_does_and_gets_a_reason(cheats: Path) -> None:
    found = judged_cheats(cheats)
    named = TAMPERED | SAME_OPS | WRONG | FALSE_TIMES
    assert sorted(found) == sorted([*named, *NO_CHEATS_HERE])
    passed = [name for name, verdict in found.items() if verdict["correct"] and verdict["trusted"]]
    assert sorted(passed) == NO_CHEATS_HERE
    for name, words in named.items():
        reasons = [finding["reason"] for finding in found[name]["failures"] + found[name]["doubts"]]
        assert any(words in reason for reason in reasons), f"{name}: {reasons}"
        assert name not in FALSE_TIMES or found[name]["reasons"] == ["suspect"]
    for name in ("cheats", "at_import", *ALONE):
        assert kept(cheats, name).code == 1
    assert found["honest"]["baselines"][0]["speedup"] < 50  # the baseline is not the slow one of a cheat, of 5 ms


def test_a_kernel_that_crashes_or_hangs_gets_a_reason_and_the_others_a_verdict(judged: Path) -> None:
    by_name = verdicts(kept(judged, "all"))
    assert by_name["honest"]["verdict"] == "pass"
    for name, status, words in (
        ("crashes", "crashed", "SIGABRT"),
        ("hangs", "timeout", "longer than 3 s"),
    ):
        assert by_name[name]["verdict"] == "wrong" and by_name[name]["reasons"] == [status]
        assert words in by_name[name]["failures"][0]["reason"], by_name[name]["failures"]


def test_what_the_clock_and_the_judge_call_is_tampered_if_it_is_replaced(cheats: Path) -> None:
    for name, verdict in judged_cheats(cheats).items():
        statuses = {failure["status"] for failure in verdict["failures"]}
        assert ("tampered" in statuses) == (name in TAMPERED), name
        assert name not in TAMPERED or verdict["trusted"] is False


@pytest.mark.gpu
def test_work_on_another_stream_is_found(kbench: Kbench, write: Write) -> None:
    write("streams.py", CHEATS.replace("@NAMES@", repr(ON_A_DEVICE)).replace("@FOLDER@", str(FOLDER)))
    sizes = ("--set", "mode=forward", "--set", "M=4096", "--set", "N=1024", "--set", "dtype=fp32")
    ended = kbench("judge", "streams.py", "--against", "softmax", *JUDGE[2:4], *sizes, "--shapes", 0, "--json")
    found = verdicts(ended)
    for name, words in {"changed_stream": "the current stream", "other_stream": "another stream"}.items():
        assert any(words in failure["reason"] for failure in found[name]["failures"]), found[name]
    assert found["honest"]["correct"] and found["honest"]["trusted"]
