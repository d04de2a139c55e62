"""Whatever a config is, it is read or refused with printable lines that name the place, in bounded time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from common import NO_FILES, make_no_file
from fake_executor import machine_info

from kbench.config import load, yaml_source
from kbench.contract.layout import Layout
from kbench.errors import MOST_ISSUES, ConfigError
from kbench.execute.plan import make_plan
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo

HEAD = "operator: softmax\nsweep: {M: 8, N: [64, 128], dtype: float32}\nproviders: [torch-native]\n"

MATRIX = {"x": Layout(("M", "N"))}
SOFTMAX = OperatorInfo(
    ("M", "N"), {}, ("float32",), providers={"torch-native": ProviderInfo()}, inputs=MATRIX, outputs=MATRIX
)

CATALOG = Catalog(DeviceInfo("cpu", "A host"), (), {"softmax": SOFTMAX}, (), machine_info())


def problems(path: Path, **options: list[str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load.load_config(path, **options)  # type: ignore[arg-type]
    lines = str(caught.value).splitlines()
    assert all(line.isprintable() and len(line) < 2100 for line in lines) and len(lines) <= MOST_ISSUES + 1
    return lines


@pytest.mark.parametrize("kind", [*NO_FILES, "nothing"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.yaml"
    if kind != "nothing":
        make_no_file(path, kind)
    [line] = problems(path)
    assert line.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (HEAD.replace("softmax", '"soft\\emax"'), "1:11"),
        (HEAD.replace("torch-native", '"torch\\u202Enative"'), "3:13"),
        (HEAD + 'baseline: "a\\nb"\n', "4:11"),
        (HEAD + 'plugins: ["\\e]0;owned.py\\n"]\n', "4:11"),
        (HEAD + '"\\e[2J": 1\n', "4:1"),
        (HEAD + 'measure: {"\\0": 1}\n', "4:11"),
        (HEAD.replace("float32", '"\\uD800"'), "2:36"),
    ],
)
def test_what_cannot_be_printed_is_an_error_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    lines = problems(path)
    assert any(line.startswith(f"{path}:{place}: ") for line in lines), lines


def test_a_plug_in_with_a_name_longer_than_any_files(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"{HEAD}plugins: [{5000 * 'x'}]\n")
    [line] = problems(path)
    assert line.startswith(f"{path}:4:11: no such file: ")


def test_a_name_that_cannot_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "esc\x1b]0;owned\x07.yaml"
    path.write_text(HEAD)
    [line] = problems(path)
    assert "esc\\x1b]0;owned\\x07.yaml: the file name contains the unprintable character U+001B" in line


@pytest.mark.parametrize("option", ["\x1b[2J=1", "N=\x1b[2J", "baseline=\x1b[2J", "\n=\n", "\u2028"])
def test_options_of_the_command_line(tmp_path: Path, option: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD)
    try:
        load.load_config(path, sets=[option], only=[option], plugins=[]).resolve(CATALOG)
    except ConfigError as error:
        assert all(line.isprintable() for line in str(error).split("\n"))
    else:
        raise AssertionError("nobody has noticed")


@pytest.mark.parametrize("text", ["".join(f"k{n}: 1\n" for n in range(2000)), "measure:\n" + "  x: 1\n" * 2000])
def test_thousands_of_problems_are_counted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + text)
    lines = problems(path)
    assert len(lines) == MOST_ISSUES + 1 and lines[-1] in (
        f"{path}: and 1,950 more problems",
        f"{path}: and 1,949 more problems",
    )


def test_a_document_of_too_many_words_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_source, "MAX_VALUES", 1000)
    path = tmp_path / "s.yaml"
    path.write_text(f"{HEAD}plugins: [{2000 * 'a,'} {{\n")  # what is wrong with its end is never reached
    [line] = problems(path)
    assert "more than 1,000 keys and values" in line


def test_more_tasks_than_anybody_can_measure(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD.replace("N: [64, 128]", "N: {start: 1, stop: 20000, step: 1}") + "measure: {sessions: 100}\n")
    with pytest.raises(
        ConfigError, match="20,000 cases in 100 sessions are too many; cases times sessions may be at most 1,000,000"
    ):
        make_plan(load.load_config(path).resolve(CATALOG), CATALOG)


def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    script = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m kbench list"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        2,
        "error: the working folder was deleted; change to a folder that exists\n",
    )
