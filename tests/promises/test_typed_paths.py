"""What a run records of its paths, its command line and its environment variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from promises.outside import MadeOnce, run_process

PLUGIN = """
import kbench

scale = kbench.Operator(
    "scale", axes=("tokens", "keys"), inputs={"x": kbench.Tensor("tokens", "keys")},
    outputs={"y": kbench.Tensor("tokens", "keys")}, reference=lambda x: 2 * x,
)


@scale.provider("twice")
def twice(x):
    return 2 * x
"""
CONFIG = """
operator: scale
sweep: {tokens: 4, keys: 8}
providers: [twice]
plugins: [mine.py]
measure: {rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}
"""
COMMAND = ("--set", "tokens=16", "--set", "keys=128", "--no-plot", "--out", "token=abc")


@pytest.fixture(scope="module")
def recorded(made_once: MadeOnce) -> tuple[str, dict[str, Any]]:
    """The path of a config as it was typed, and the environment file of its run. The path has the user's name in it, and
    below a mount the path of the home folder, as on a cluster."""

    def make(folder: Path) -> None:
        home = folder / "alice"
        config = Path(f"{folder}/mnt{home}/scale.yaml")
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG)
        (config.parent / "mine.py").write_text(PLUGIN)
        (folder / "typed").write_text(str(config))
        variables = {"HOME": str(home), "LOGNAME": "alice", "USER": "alice", "TORCH_CUDA_TOKEN": "s3cret"}
        variables["TRITON_PTXAS_PATH"] = f"{home}/ptxas"
        ended = run_process("run", config, *COMMAND, folder=folder, **variables)
        assert ended.code == 0, ended.text

    folder = made_once("typed-paths", make)
    return (folder / "typed").read_text(), json.loads((folder / "token=abc" / "scale.env.json").read_text())


def test_a_path_with_the_home_folder_or_the_user_in_it_is_recorded_as_typed(
    recorded: tuple[str, dict[str, Any]],
) -> None:
    typed, environment = recorded
    assert environment["config"]["path"] == typed and Path(environment["config"]["path"]).is_file()


def test_the_command_line_is_recorded_as_typed(recorded: tuple[str, dict[str, Any]]) -> None:
    typed, environment = recorded
    assert environment["command"] == ["kbench", "run", typed, *COMMAND]


def test_the_value_of_a_variable_that_may_hold_a_secret_is_not_recorded(recorded: tuple[str, dict[str, Any]]) -> None:
    _, environment = recorded
    assert environment["variables"]["TORCH_CUDA_TOKEN"] == "(hidden)"
    assert environment["variables"]["TRITON_PTXAS_PATH"].endswith("/alice/ptxas")
    assert "s3cret" not in json.dumps(environment)
