"""The files that kbench brings and writes work as they are: built-in configs, examples, snippets of the docs, `kbench init`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from promises.outside import QUICK, ROOT, Kbench, MadeOnce, Write, folder_of, kept, lines_with, providers_of, words_of

CONFIGS = sorted(path.stem for path in (ROOT / "configs").glob("*.yaml"))
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.fixture
def listed(made_once: MadeOnce) -> str:
    """What `kbench list` prints with the plug-ins of all examples, and one more."""
    plugins = [f"--plugin={ROOT / 'examples' / name}.py" for name in EXAMPLES]
    plugins.append(f"--plugin={Path(__file__).parent / 'operators' / 'shift.py'}")
    return kept(folder_of(made_once, "listed", {}, "list", *plugins)).out


def test_list_names_every_operator_of_the_docs_with_its_providers_and_every_built_in_config(listed: str) -> None:
    table = (ROOT / "docs" / "index.md").read_text().partition("## Operators")[2].partition("##")[0]
    operators = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert len(operators) >= 9 and all(lines_with(listed, operator, "torch-native") for operator in operators)
    assert len(CONFIGS) >= 18 and all(lines_with(listed, config) for config in CONFIGS)
    both = ("torch-jit", "torch-compile", "triton-row", "triton", "cuda")
    ladder = ("cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle")
    assert all(lines_with(listed, "gelu", provider) for provider in both)
    for provider in (*both, *ladder, "torch-eager", "triton-persistent", "liger", "quack"):
        assert lines_with(listed, "softmax", provider), provider


def test_list_shows_what_a_config_can_sweep_and_which_providers_can_run(listed: str) -> None:
    operator = ("shift", "M", "N", "eps=1e-06", "form=plain|squared", "backward")
    for words in (operator, ("mine", "a_package_that_nobody_has", "block=64")):
        assert any(all(word in line for word in words) for line in listed.splitlines()), listed


@pytest.mark.parametrize("kind", ["configs", "examples"])
def test_what_a_config_names_is_listed(kind: str, listed: str) -> None:
    """The axes, scalars, choices, providers and parameters of all built-in configs and examples, and of their profiles."""
    for path in (ROOT / kind / f"{name}.yaml" for name in {"configs": CONFIGS, "examples": EXAMPLES}[kind]):
        config = yaml.safe_load(path.read_text())
        operator = config["operator"]
        known = set[str]().union(*map(words_of, lines_with(listed, operator)))
        known = {word.split("=")[0] for word in known} | {"dtype", "mode", "model", "tokens"}
        for part in (config, *config["profiles"].values()):
            sweeps = part.get("sweep", {})
            for sweep in sweeps if isinstance(sweeps, list) else [sweeps]:
                assert sweep.keys() <= known, f"{path.name}: {sweep}"
            for entry in part.get("providers", []):
                [(provider, parameters)] = entry.items() if isinstance(entry, dict) else [(entry, {})]
                lines = [
                    {word.split("=")[0] for word in words_of(line)} for line in lines_with(listed, operator, provider)
                ]
                assert any(parameters.keys() <= words for words in lines), f"{path.name}: {entry}"


def test_the_other_examples_are_yaml() -> None:
    workflow = yaml.safe_load((ROOT / "examples" / "ci.yml").read_text())
    assert "kbench ab" in str(workflow["jobs"])
    kinds = [document["kind"] for document in yaml.safe_load_all((ROOT / "examples" / "kubernetes.yaml").read_text())]
    assert kinds == ["Service", "Deployment", "Deployment"]


def test_the_plug_in_of_the_readme_is_right_on_all_inputs(made_once: MadeOnce) -> None:
    pytest.importorskip("triton")
    [plugin] = blocks("README.md", "python")
    small = ("--set", "M=8", "--set", "N=100")
    command = ("check", "softmax", "--plugin", "my_kernels.py", "--only", "mine", *small)
    ended = kept(folder_of(made_once, "readme", {"my_kernels.py": plugin}, *command))
    assert ended.code == 0 and len(lines_with(ended.out, "ok")) > 10, ended.text


def test_the_cuda_kernel_of_the_docs_can_be_run_as_it_is(kbench: Kbench, write: Write) -> None:
    for language, name in {"cpp": "scaled_add.cu", "python": "scaled_add.py", "yaml": "scaled_add.yaml"}.items():
        [text] = [text for text in blocks("docs/cuda.md", language) if text.startswith((f"// {name}", f"# {name}"))]
        write(name, text)
    ended = kbench("run", "scaled_add.yaml", "--dry-run")
    assert ended.code == 0 and lines_with(ended.out, "cuda") and lines_with(ended.out, "torch-native"), ended.text


# ---------------------------------------------------------------- the built-in experiments

LONG = {"start": 256, "stop": 12672, "step": 128}


def test_the_experiments_of_the_write_ups_are_built_in() -> None:
    row, ladder = (
        {"M": 4096, "N": LONG, "dtype": "float32"},
        ("cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle"),
    )
    experiments: dict[str, tuple[object, tuple[str, ...]]] = {
        "softmax": (row, ("triton", "torch-native", "torch-jit", "cuda")),
        "softmax-ladder": ({"M": 1024, "N": 32768, "dtype": "float32"}, (*ladder, "cuda", "torch-native")),
        "softmax-persistent": ([{"M": 1823, "N": 781, "dtype": "float32"}, row], ("triton-row", "triton-persistent")),
        "gelu": (row | {"approximate": "tanh"}, ("triton", "torch-native")),
    }
    for name, (sweep, providers) in experiments.items():
        config = yaml.safe_load((ROOT / "configs" / f"{name}.yaml").read_text())
        assert config["sweep"] == sweep and set(providers) <= set(config["providers"])


# ---------------------------------------------------------------- init


@pytest.fixture
def started(made_once: MadeOnce) -> Path:
    """The folder in which `kbench init rownorm` has written its files."""
    return folder_of(made_once, "init", {}, "init", "rownorm")


def test_init_names_its_files_and_what_to_type_next_and_its_workflow_compares_with_the_base_of_a_pull_request(
    started: Path,
) -> None:
    workflow = yaml.safe_load((started / "kbench-workflow.yml").read_text())
    text = str(workflow)
    assert "kbench ab" in text and "rownorm.yaml" in text and "FAIL_ON" in text
    assert "pull_request" in str(workflow.get("on", workflow.get(True)))  # YAML reads the key `on` as true
    ended = kept(started)
    files = {path.name for path in started.iterdir()} - {"ended.json"}
    assert files == {"rownorm.yaml", "my_rownorm.py", "kbench-workflow.yml"} and ended.code == 0
    assert all(file in ended.out for file in files)
    [line] = [line for line in ended.out.splitlines() if "my_rownorm.py:" in line]
    assert "RMS norm" in line, "what the operator computes"
    assert "kbench check rownorm.yaml" in ended.out and "kbench run rownorm.yaml" in ended.out


def test_the_files_of_init_run_as_they_are(started: Path, made_once: MadeOnce) -> None:
    files = {name: (started / name).read_text() for name in ("rownorm.yaml", "my_rownorm.py")}
    folder = folder_of(made_once, "started", files, "run", "rownorm.yaml", *QUICK)
    rows = providers_of(folder / "results" / "rownorm.csv")
    assert kept(folder).code == 0
    assert {row["provider"] for row in rows} == {"torch", "mine"}
    assert {row["status"] for row in rows} <= {"ok", "checked"}
    assert {path.suffix for path in (folder / "results").iterdir()} == {".csv", ".json", ".png", ".svg"}


def test_init_of_an_operator_of_kbench_writes_providers_of_it(kbench: Kbench, folder: Path) -> None:
    ended = kbench("init", "softmax")
    assert ended.code == 0 and "kbench run softmax --plugin my_softmax.py" in ended.out
    assert "Operator(" not in (folder / "my_softmax.py").read_text()
    sizes = ("--only", "torch-native,mine", "--set", "M=4", "--set", "N=64", "--set", "dtype=float32")
    ended = kbench("run", "softmax", "--plugin", "my_softmax.py", *sizes, *QUICK, "--no-plot")
    rows = {row["provider"]: row["status"] for row in providers_of(folder / "results" / "softmax.csv")}
    assert ended.code == 0 and rows == {"torch-native": "ok", "mine": "ok"}, ended.text


def test_init_writes_no_file_if_one_of_them_exists(kbench: Kbench, write: Write, folder: Path) -> None:
    write("my_rownorm.py", "# mine\n")
    ended = kbench("init", "rownorm")
    assert ended.code == 2 and "my_rownorm.py" in ended.err
    assert [path.name for path in folder.iterdir()] == ["my_rownorm.py"]
    assert (folder / "my_rownorm.py").read_text() == "# mine\n"


def test_init_agent_writes_a_section_of_agents_md_and_replaces_only_this_section(
    kbench: Kbench, write: Write, folder: Path
) -> None:
    agents = write("AGENTS.md", "# Rules\n\nBe kind.\n")
    ended = kbench("init", "softmax", "--agent")
    first = agents.read_text()
    assert ended.code == 0 and "AGENTS.md" in ended.out and [path.name for path in folder.iterdir()] == ["AGENTS.md"]
    assert first.startswith("# Rules\n\nBe kind.\n") and 50 < len(first.splitlines()) < 110
    for command in ("kbench check softmax", "kbench judge my_kernel.py", "kbench why judged", "--champion best.py"):
        assert command in first
    agents.write_text(first.replace("How to make", "Old words of") + "\nThe end.\n")
    assert kbench("init", "rownorm", "--agent").code == 0
    second = agents.read_text()
    assert second.startswith("# Rules\n\nBe kind.\n") and second.endswith("\nThe end.\n")
    assert "rownorm.yaml" in second and "Old words of" not in second and second.count("How to make") == 1
    [begin] = [line for line in second.splitlines() if "begin" in line and line.startswith("<!--")]
    agents.write_text(second.replace(begin, ""))
    ended = kbench("init", "softmax", "--agent")
    assert ended.code == 2 and "AGENTS.md" in ended.err and "end" in ended.err
