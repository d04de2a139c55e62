"""Takes results files into results/ for kernels_update.py: without paths of a machine, and with remarks on what is odd."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kbench.config.load import load_config
from kbench.measure.catalog import make_catalog
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing
from kbench.protocol import Catalog

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results/h200"

SUMMARISED = ["rmsnorm", "add_rmsnorm", "layernorm", "softmax-backward", "cross_entropy", "swiglu", "quantize_fp8"]
"""The lines of the table of "The other operators", in order."""

PEERS, SHORT, BETWEEN, GELU = "softmax-peers", "short/softmax-peers", "between/softmax-peers", "gelu-peers"

DRAWN = [
    *("softmax", "softmax-large", "softmax-ladder", "softmax-persistent", "softmax-providers", "softmax-warps"),
    *("gelu", "gelu-providers", "matmul"),
]
"""The docs show pictures of them, and a few figures."""

CONFIGS = [*SUMMARISED, PEERS, SHORT, BETWEEN, GELU, *DRAWN]

LIBRARY = re.compile(r"(?:/[\w.+-]+)+/(?=(?:quack|liger_kernel|torch|triton|kbench|cutlass|flashinfer)/)")
"""The folders before a library's own: `/usr/lib/python3/` of `/usr/lib/python3/torch/nn/functional.py`."""

PATH = re.compile(r"(?<![\w./:-])/[a-z]\w*/[^\s\"',;)]*")


@dataclass
class Update:
    """What is done, and what a person has to know of it.

    folder  the new results
    new     names of the configs that it has, with the folder before them if they are in one
    card    what they were measured on, such as h200: the folder of results/ that takes them
    looks   what to look at
    facts   figures for the sentences of the docs, by what they are
    """

    folder: Path
    new: list[str]
    card: str = "h200"
    looks: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def look(self, text: str) -> None:
        self.looks.append(text)

    @property
    def results(self) -> Path:
        return RESULTS.with_name(self.card)


def run(*words: str) -> str:
    """What Python prints for this command line in the root of the repository. Ends this process if it fails."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked(folder: Path) -> list[Path]:
    """The committed files of a folder."""
    done = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in done.stdout.splitlines()]


def take(update: Update, name: str) -> None:
    """Put the files of a config into the folder of results/ for the card, and say what is odd in them."""
    table, environment_file, kernels = (
        (update.folder / f"{name}{suffix}", update.results / f"{name}{suffix}")
        for suffix in (".csv", ".env.json", ".kernels.jsonl")
    )
    table[1].parent.mkdir(parents=True, exist_ok=True)
    text = without_folders(update, table[0].read_text(), f"{name}.csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    if any(row.get("device_uuid") for row in rows):
        text = without_uuids(text)
        print(f"  {name}.csv: the UUIDs of devices are left out, as in the other files")
    table[1].write_text(text)
    environment = described_here(update, json.loads(environment_file[0].read_text()), name)
    text = json.dumps(environment, indent=2, ensure_ascii=False) + "\n"
    environment_file[1].write_text(without_folders(update, text, environment_file[1].name))
    if kernels[0].exists():
        kernels[1].write_text(without_folders(update, kernels[0].read_text(), kernels[1].name))
    elif kernels[1].exists():
        kernels[1].unlink()
        update.look(f"{kernels[1].relative_to(ROOT)} was of the old rows and is removed; the folder has no new one")
    if not tracked(table[1]):
        update.look(f"{name}.csv is new: write a sentence on it in docs/peers.md, and see docs/index.md")
    judge(update, name, rows, environment)


def without_folders(update: Update, text: str, where: str) -> str:
    """The text without folders of the machine. Of a library's file, the part from the library on stays."""
    short = LIBRARY.sub("", text).replace(f"{ROOT}/", "")
    for found in sorted(set(PATH.findall(short))):
        update.look(f"{where} contains the path {found}: remove it by hand")
    return short


def without_uuids(text: str) -> str:
    lines = list(csv.reader(io.StringIO(text)))
    at = lines[0].index("device_uuid")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([lines[0], *([*x[:at], "", *x[at + 1 :]] for x in lines[1:])])
    return out.getvalue()


def described_here(update: Update, environment: dict[str, Any], name: str) -> dict[str, Any]:
    """The environment of a run as if its command had written into the folder of results/."""
    folder = str((update.results / name).parent.relative_to(ROOT))
    for part in (environment, *environment.get("continued", [])):
        command = part.get("command") or []
        command[:1] = ["kbench"] if command else []
        for at, word in enumerate(command):
            if at and command[at - 1] in ("-o", "--out"):
                command[at] = folder
            elif word.startswith("--out="):
                command[at] = f"--out={folder}"
    if (environment.get("config") or {}).get("path", "").startswith("/"):
        environment["config"]["path"] = f"configs/{Path(name).name}.yaml"
    return environment


def judge(update: Update, name: str, rows: list[dict[str, str]], environment: dict[str, Any]) -> None:
    """Say what is incomplete or odd in new results."""
    others = Counter(
        f"{row['provider']} {row['dtype']} {row['status']}: {row['reason'][:140]}"
        for row in rows
        if row["status"] not in ("ok", "unsupported")
    )
    for key, count in others.items():
        update.look(f"{name}.csv: {count} rows {key}")
    timed = [row for row in rows if row["ms"]]
    noisy = sum("noisy" in row["flags"] for row in timed)
    if noisy >= 0.25 * len(timed):
        update.look(
            f"{name}.csv: {noisy} of {len(timed)} rows are noisy; tests/measure/test_flags.py accepts a quarter"
        )
    if suspects := [row for row in rows if "suspect" in row["flags"]]:
        first = f"{suspects[0]['provider']} {suspects[0]['case_hash']}"
        update.look(f"{name}.csv: {len(suspects)} rows are suspect, the first is {first}")
    if environment.get("interrupted") or not environment.get("finished_at"):
        update.look(f"{name}.env.json: the run was interrupted or did not finish")
    card = f"NVIDIA {update.card.upper()}"
    if len({row["device"] for row in rows}) != 1 or not environment["device"].startswith(card):
        update.look(f"{name}: the device is {environment['device']}, not {card}")
    git = environment.get("git")
    if git and subprocess.run(["git", "cat-file", "-e", git["commit"]], cwd=ROOT, capture_output=True).returncode:
        update.look(f"{name}.env.json: the commit {git['commit']} is not in this repository")
    measure, cases = environment["measure"], len({row["case_hash"] for row in rows})
    wanted = cases_of(name, environment.get("profile"))
    print(
        f"  {name}: {len(rows)} rows, {cases} cases of {wanted}, {measure['timer']}, {measure['rounds']} rounds, "
        f"{measure['rep_ms']} ms, {environment['started_at'][:10]}, command {' '.join(environment['command'])}"
    )
    if cases != wanted:
        update.look(f"{name}.csv has {cases} of the {wanted} cases that its config has now")


def cases_of(name: str, profile: str | None) -> int:
    """How many cases the config has now."""
    config = load_config(ROOT / f"configs/{Path(name).name}.yaml", profile=profile or "none")
    return len(config.resolve(catalog()).cases)


@cache
def catalog() -> Catalog:
    return make_catalog(Device(), Nothing(), [])
