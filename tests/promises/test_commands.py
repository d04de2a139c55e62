"""What all commands share: help, mistakes in options, exit codes, and where their output goes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest
import yaml

from promises.outside import ROOT, Kbench, Write, start, write_results

COMMANDS = ["run", "exec", "check", "judge", "compare", "ab", "dispatch", "plot", "show", "report", "why", "history"]
COMMANDS += ["init", "list", "doctor", "explain", "schema"]
RESULTS = ROOT / "results" / "h200" / "softmax.csv"
OLD, NEW = (ROOT / "results" / "h200" / "comparing" / side / "softmax.csv" for side in ("a", "slowed"))


def test_help_lists_every_command_with_a_sentence(kbench: Kbench) -> None:
    out = kbench("--help").out
    for command in COMMANDS:
        assert re.search(rf"^ *{command} +[A-Z].*\.$", out, re.MULTILINE), command


def test_help_of_a_command_has_its_options_and_an_unknown_one_is_named_and_exits_2(kbench: Kbench) -> None:
    for command in [*COMMANDS, "history check"]:
        for option in ("--help", "-h"):
            ended = kbench(*command.split(), option)
            assert ended.code == 0 and ended.err == "", command
            assert f"kbench {command}" in ended.out and "--help" in ended.out
            assert max(map(len, ended.out.splitlines())) <= 80 and "…" not in ended.out, command
    for command in [*COMMANDS, "history check"]:
        ended = kbench(*command.split(), "--frobnicate")
        if command != "exec":  # which passes options on
            assert ended.code == 2 and ended.out == "" and "--frobnicate" in ended.err, command


def test_a_missing_argument_is_named_and_an_unknown_command_with_a_near_one(kbench: Kbench) -> None:
    for command, argument in {
        "run": "CONFIG", "exec": "COMMAND", "check": "CONFIG", "judge": "FILE.py", "compare": "OLD.csv", "ab": "BASE",
        "history check": "DIR",
    }.items():  # fmt: skip
        ended = kbench(*command.split())
        assert ended.code == 2 and ended.out == "" and argument in ended.err, command
    ended = kbench("comapre")
    assert ended.code == 2 and "comapre" in ended.err and "compare" in ended.err


def test_a_second_value_of_an_option_is_refused_instead_of_replacing_the_first(kbench: Kbench) -> None:
    """A gate with the last verdict only would pass what the first one forbids."""
    for option, command in {"--fail-on": ("compare", OLD, NEW), "--where": ("show", RESULTS)}.items():
        ended = kbench(*command, option, "slower", option, "failed")
        assert ended.code == 2 and ended.out == "" and option in ended.err and "twice" in ended.err


def test_a_results_file_that_is_missing_is_named_and_one_without_results_with_its_line(
    kbench: Kbench, write: Write
) -> None:
    for command in ("show", "compare", "plot", "report", "why", "dispatch"):
        ended = kbench(command, *["nope.csv"] * (2 if command == "compare" else 1))
        assert ended.code == 2 and ended.out == "" and ended.err.startswith("error: nope.csv: "), command
    write("notes.csv", "a,b\n1,2\n")
    ended = kbench("show", "notes.csv")
    assert ended.code == 2 and "notes.csv:1" in ended.err and "'a,b' and has no column operator, provider" in ended.err
    ended = kbench("history", "check", "notes.csv")
    assert ended.code == 2 and "notes.csv: is a file; name its folder" in ended.err


def test_without_results_a_command_says_how_to_make_some(kbench: Kbench, write: Write) -> None:
    for command in ("show", "plot", "report", "why"):
        ended = kbench(command)
        assert ended.code == 2 and "kbench run" in ended.err, command
    write("results/other.csv", "name,value\na,1\n")  # is no results file
    ended = kbench("show")
    assert ended.code == 2 and "kbench run" in ended.err and "(other.csv is not one)" in ended.err


@pytest.fixture
def folders(folder: Path) -> Path:
    """`base` and `head` have one results file each, `both` has two, `none` has none."""
    for name, factor in (("base", 1.0), ("head", 1.1)):
        rows = [
            {"provider": "mine", "N": n, "session": session, "ms": factor * n * (1 + 0.001 * session), "gbps": 10}
            for n in (1024, 2048, 4096)
            for session in range(3)
        ]
        write_results(folder / name / "softmax.csv", rows)
        write_results(folder / "both" / f"{name}.csv", rows)
    write_results(folder / "base" / "softmax.20261120-100000.csv", rows)  # a run that was moved aside
    (folder / "none").mkdir()
    return folder


def test_a_folder_stands_for_the_only_results_file_in_it(kbench: Kbench, folders: Path) -> None:
    for options in (("base", "head"), ("old=base", "new=head")):
        ended = kbench("compare", *options, "--fail-on", "slower")
        assert ended.code == 1 and ended.out.count("! slower") == 3
    assert "new against old" in ended.out
    shown = kbench("show", "head")
    assert shown.code == 0 and "head/softmax.csv" in shown.out
    drawn = kbench("plot", "base", "head", "--format", "svg", "--out", "pictures")
    assert drawn.code == 0 and list((folders / "pictures").glob("*.svg"))


def test_a_folder_with_several_results_files_or_none_is_refused(kbench: Kbench, folders: Path) -> None:
    for command in ("show", "plot"):
        several, none = kbench(command, "both"), kbench(command, "none")
        assert several.code == 2 and "both/base.csv" in several.err and "both/head.csv" in several.err
        assert none.code == 2 and "none: no results file" in none.err


def test_an_error_has_no_traceback_unless_it_is_asked_for(kbench: Kbench) -> None:
    assert "Traceback" not in kbench("show", "nope.csv").text
    asked = kbench("--traceback", "show", "nope.csv")
    assert asked.code == 2 and "Traceback" in asked.err and "nope.csv" in asked.err


# ---------------------------------------------------------------- exit codes and streams


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    for arguments in (("explain",), ("show", RESULTS, "--details"), ("compare", OLD, NEW)):
        process = start(*arguments, folder=folder)
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(60) == 0 and "error" not in err and "Traceback" not in err


def test_the_output_is_the_same_inside_a_github_job(kbench: Kbench, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("compare", OLD, NEW, "--where", "N=1024")
    before = kbench(*arguments)
    for variable in ("CI", "GITHUB_ACTIONS"):
        monkeypatch.setenv(variable, "true")
    assert kbench(*arguments).out == before.out


def test_output_into_a_pipe_has_no_colours(kbench: Kbench) -> None:
    for arguments in (("explain", "ok"), ("show", RESULTS), ("compare", OLD, NEW), ("run", "nope"), ("--help",)):
        assert "\x1b" not in kbench(*arguments).text


def test_a_narrow_terminal_without_colours_shows_every_word_and_no_escape_code(folder: Path) -> None:
    terminal, inside = pty.openpty()
    termios.tcsetwinsize(inside, (24, 70))
    environment = os.environ | {"NO_COLOR": "1", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "kbench", "list", "softmax"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=inside, stderr=inside)
    os.close(inside)
    printed = b""
    with suppress(OSError):  # Linux says so that the other end is closed
        while part := os.read(terminal, 4096):
            printed += part
    os.close(terminal)
    lines = printed.decode().splitlines()
    assert process.wait(60) == 0 and "\x1b" not in printed.decode()
    assert max(map(len, lines)) <= 70
    assert {"softmax-persistent", "torch-native", "triton-persistent"} <= set(" ".join(lines).split())


def test_a_folder_that_cannot_be_written_is_named_and_exits_2(kbench: Kbench) -> None:
    where = ("--where", "N=1024")
    for arguments in (("plot", RESULTS, *where, "--out"), ("report", RESULTS, *where, "--out"), ("init", "x", "--dir")):
        ended = kbench(*arguments, "/proc/kbench/page.html")
        assert ended.code == 2 and "/proc/kbench" in ended.err and "cannot be written" in ended.err, arguments


def test_a_run_whose_results_cannot_be_written_measures_nothing(kbench: Kbench, write: Write) -> None:
    write("taken", "a file")
    ended = kbench("run", "softmax", "--out", "taken", "--only", "torch-native")
    assert ended.code == 2 and "error: taken" in ended.err and "fastest" not in ended.text


# ---------------------------------------------------------------- list, doctor, explain, schema


def test_doctor_shows_the_machine_and_what_each_missing_package_would_enable(kbench: Kbench) -> None:
    import torch

    ended = kbench("doctor")
    assert ended.code == 0 and torch.__version__ in ended.out
    assert "liger" in ended.out and "pip install" in ended.out


def test_explain_explains_every_word_that_it_lists_and_those_of_a_comparison(kbench: Kbench) -> None:
    listed = kbench("explain").out
    words = [word.strip() for line in listed.splitlines() for word in line.partition(":")[2].split(",") if word.strip()]
    assert {"ok", "wrong", "noisy", "slower", "unclear", "copy", "ms", "geomean"} <= set(words)
    ended = kbench("explain", *words)
    assert ended.code == 0 and all(word in ended.out for word in words)
    printed = kbench("compare", OLD, NEW).out
    judged = ["judge", "pass", "better", "trust", "champion", "ledger", "factory", "not-checked"]
    assert kbench("explain", *judged, "share of a copy's speed").code == 0
    for word in ("machine drift", "95% interval", "q", "verdict", "sessions", "margin", "do_bench", "cache cold"):
        assert word in printed and kbench("explain", word).code == 0, word


@pytest.mark.parametrize(("word", "near"), [("geomen", '"geomean"'), ("odd colums", "odd columns")])
def test_a_word_that_nobody_explains_is_named_with_a_near_one(kbench: Kbench, word: str, near: str) -> None:
    ended = kbench("explain", word)
    assert ended.code == 2 and word in ended.err and near in ended.err
    beside = kbench("explain", "noisy", word)
    assert beside.code == 2 and "noisy" in beside.out and near in beside.err


def test_the_schema_of_configs_accepts_every_built_in_config_and_refuses_an_unknown_key(kbench: Kbench) -> None:
    schema = json.loads(kbench("schema", "config").out)
    assert json.loads(kbench("schema").out) == schema, "config is the default"
    validator = jsonschema.Draft202012Validator(schema)
    configs = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "configs").glob("*.yaml"))]
    assert len(configs) > 9
    for config in configs:
        validator.validate(config)
        assert not validator.is_valid({**config, "sweeep": {}}) and not validator.is_valid({**config, "sweep": 3})


def test_an_unknown_option_names_what_takes_its_place(kbench: Kbench, write: Write) -> None:
    write("problem.py", "class Model: ...\ndef get_inputs(): ...\n")
    for words, advice in {
        ("bench.py", "--size", "64"): "kbench run bench.py -- --size\n",
        ("bench.py", "--rep-ms=3"): "--set rep_ms=3\n",
        ("softmax", "--rounds", "3"): "--set rounds=3\n",
        ("problem.py", "--N"): "--set N=VALUE\n",
        ("softmax", "--set"): "'kbench run -h'",
    }.items():
        message = kbench("run", *words).err
        assert advice in message and "--out" not in message, message


def test_what_compare_exports_to_stdout_is_a_document_of_its_schema_and_nothing_else(kbench: Kbench) -> None:
    schema = json.loads(kbench("schema", "compare").out)
    ended = kbench("compare", OLD, NEW, "--export", "json=-", "--fail-on", "slower")
    jsonschema.Draft202012Validator(schema).validate(json.loads(ended.out))
    assert ended.code == 1


def test_every_command_of_the_readme_and_of_the_docs_exists_with_its_options(kbench: Kbench, folder: Path) -> None:
    """Of the lines `kbench COMMAND ...` in blocks of code."""
    helps: dict[str, str] = {}
    kbench("init", "--agent")
    for page in [folder / "AGENTS.md", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(), re.DOTALL):
            for line in re.findall(r"^(?:\$ )?kbench ([a-z][^#|\n]*)", block, re.MULTILINE):
                words = line.split()
                command = " ".join(words[: 2 if words[0] == "history" else 1])
                if command not in helps:
                    ended = kbench(*command.split(), "--help")
                    assert ended.code == 0, f"{page.name}: kbench {line}"
                    helps[command] = ended.out
                for option in re.findall(r" (--[a-z-]+)", line.partition(" -- ")[0]):
                    assert option in helps[command], f"{page.name}: kbench {line}"
    assert {"run", "check", "compare", "show", "init", "plot", "report", "ab", "why", "history check"} <= helps.keys()
