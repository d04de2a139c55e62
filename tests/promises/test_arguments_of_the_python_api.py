"""Functions of `import kbench` take what the command line takes, and errors name what the caller wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbench as api
from promises.outside import Kbench, write_results

CONFIG = {"operator": "softmax", "sweep": {"M": 4, "N": 8}, "providers": ["torch-native"]}


def test_plot_takes_several_words_in_one_text_separated_by_commas(folder: Path) -> None:
    rows = [{"provider": "mine", "N": n, "dtype": dtype, "ms": n / 1e3, "gbps": 100} for n in (64, 128) for dtype in
            ("float32", "float16")]  # fmt: skip
    path = write_results(folder / "softmax.csv", rows)
    pictures = api.plot(path, by="dtype,M", formats="png,svg", out=folder)
    assert sorted(Path(picture).suffix for picture in pictures) == [".png", ".svg"]


@pytest.mark.parametrize("sessions", [0, 1000])
def test_a_wrong_number_of_sessions_is_blamed_on_the_argument_sessions(folder: Path, sessions: int) -> None:
    with pytest.raises(api.ConfigError) as error:
        api.run(CONFIG, sessions=sessions, out=folder)
    assert f"sessions`={sessions}" in str(error.value) and "sets" not in str(error.value)


def test_a_wrong_number_of_sessions_is_blamed_on_the_option_sessions(kbench: Kbench) -> None:
    ended = kbench("run", "softmax", "--sessions", "1000")
    assert ended.code == 2 and "--sessions=1000" in ended.err and "--set" not in ended.err


def test_every_public_name_is_there_and_in_the_help_of_the_package() -> None:
    assert api.__doc__
    for name in api.__all__:
        assert getattr(api, name) is not None
        assert name.startswith("__") or name in api.__doc__, name
