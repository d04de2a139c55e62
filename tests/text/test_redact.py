"""What kbench records holds no secrets, and does not say whose machine it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench.text import redact


@pytest.fixture(autouse=True)
def alice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("LOGNAME", "alice")
    redact._places.cache_clear()
    yield
    redact._places.cache_clear()


@pytest.mark.parametrize(
    "name",
    ["TORCH_HUB_TOKEN", "TRITON_CACHE_REDIS_PASSWORD", "PYTORCH_CI_SECRET", "TORCH_API_KEY", "torch_passphrase",
     "TRITON_AWS_CREDENTIALS", "TORCH_BASIC_AUTH", "TRITON_PW"],
)  # fmt: skip
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert redact.variables({name: "s3cret"}) == {name: "(hidden)"}


def test_what_shapes_a_number_is_kept() -> None:
    found = {"CUDA_VISIBLE_DEVICES": "0,1", "TRITON_INTERPRET": "1", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}
    assert redact.variables(found) == found


def test_command_lines() -> None:
    words = ["kbench", "run", "/home/alice/s.yaml", "--out=/home/alice/x", "--set", "N=64", "--scheduler",
             "tls://alice:pa55@host:8786", "token=abc", "--api-key=abc"]  # fmt: skip
    assert redact.command(words) == [
        "kbench", "run", "~/s.yaml", "--out=~/x", "--set", "N=64", "--scheduler",
        "tls://(hidden)@host:8786", "token=(hidden)", "--api-key=(hidden)",
    ]  # fmt: skip


def test_paths() -> None:
    assert redact.redact_text("No such file: '/home/alice/data/x'") == "No such file: '~/data/x'"
    assert redact.redact_text("/home/alice2/x and /scratch/alice/x") == "/home/alice2/x and /scratch/(user)/x"
    assert redact.redact_text(str(Path("results/s.csv"))) == "results/s.csv"


def test_a_root_folder_as_home_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    redact._places.cache_clear()
    assert redact.redact_text("/data/x") == "/data/x"
