"""What `kbench judge` refuses once it knows what the files register."""

from __future__ import annotations

from pathlib import Path

import pytest
from making import machine_info

from kbench.errors import UsageError
from kbench.judging.judge import JudgeOptions, _entrants, _load
from kbench.protocol import Catalog, DeviceInfo, OperatorInfo, ProviderInfo

REGISTERED = {"softmax": {"honest": "mine.py", "a": "several.py", "b": "several.py"}, "gelu": {"mine": "other.py"}}


@pytest.mark.parametrize(
    ("file", "options", "words"),
    [
        ("other.py", {}, ("other.py registers no provider of operator softmax, only of gelu;",)),
        ("mine.py", {"providers": ["hones"]}, ("mine.py registers no provider 'hones'; it registers honest",)),
        ("mine.py", {"baselines": ["honest"]}, ("--baseline honest: ", "mine.py registers", "choose from torch")),
        ("several.py", {"champion": Path("mine.py")}, ("--champion needs one candidate, not a, b;", "--provider")),
        ("mine.py", {"champion": Path("several.py")}, ("--champion several.py: registers a, b;",)),
    ],
)
def test_a_judgement_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, options: dict[str, object], words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text("{operator: softmax, sweep: {M: 8, N: 8}, providers: [torch]}")
    operators = {}
    for operator, files in REGISTERED.items():
        infos = {name: ProviderInfo(plugin=str(Path(plugin).resolve())) for name, plugin in files.items()}
        operators[operator] = OperatorInfo(("M", "N"), {}, ("float32",), providers={"torch": ProviderInfo(), **infos})
    for name in ("mine.py", "several.py", "other.py"):
        Path(name).touch()
    judge_options = JudgeOptions("sweep.yaml", **options)  # type: ignore[arg-type]
    catalog = Catalog(DeviceInfo("cpu", ""), (), operators, (), machine_info())
    plan = _load(Path(file), judge_options, 1).resolve(catalog)
    with pytest.raises(UsageError) as refused:
        _entrants(plan, Path(file), judge_options)
    assert all(word in str(refused.value) for word in words), refused.value
