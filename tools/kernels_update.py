"""Takes new results into results/h200, and makes again what is made of them: pictures, tables, the README's sample.

    python tools/kernels_update.py FOLDER
    python tools/kernels_update.py FOLDER --card h100       into results/h100, of which only a table is made

FOLDER has CONFIG.csv and CONFIG.env.json, perhaps CONFIG.kernels.jsonl. Results of the profiles `short` and `between` are in
folders of these names. The tables are those of docs/peers.md and docs/dispatch.md. The sentences around them are yours to
write: this prints those that may quote a figure, the figures, and at last what is odd. It needs some minutes and commits
nothing. With the committed results as FOLDER, no file changes.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from statistics import fmean

from kernels_pictures import draw
from kernels_results import CONFIGS, GELU, PEERS, RESULTS, ROOT, SHORT, SUMMARISED, Update, run, take
from kernels_sentences import add_figures, print_sentences

from kbench.dispatching.dispatch import DispatchOptions, dispatch
from kbench.dispatching.evidence import Evidence
from kbench.dispatching.grow import grow
from kbench.dispatching.holdout import Choose, lost_when_held_out
from kbench.dispatching.tree import leaves

PEERS_PAGE, DISPATCH, README = ROOT / "docs/peers.md", ROOT / "docs/dispatch.md", ROOT / "README.md"
TABLES = "tools/kernels_tables.py"
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

DISPATCHED = {
    "`results/h200/softmax-peers.csv` (tall)": [PEERS],
    "`results/h200/short/softmax-peers.csv`": [SHORT],
    "both": [PEERS, SHORT],
}
"""The lines of the table of docs/dispatch.md, and the results that each is made of."""

SPLITS = 20

GOAL = 0.01
"""tests/dispatching/test_committed_decisions.py expects a mean regret of at most this."""


def table_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def replace_table(update: Update, section: str, lines: list[str]) -> None:
    """Replace the first table after a heading of peers.md whose first column is named as the new one's."""
    old = PEERS_PAGE.read_text().splitlines()
    first = lines[0].split("|")[1]
    begin = old.index(section)
    start = next(at for at in range(begin, len(old)) if old[at].startswith("|") and old[at].split("|")[1] == first)
    end = next((at for at in range(start, len(old)) if not old[at].startswith("|")), len(old))
    if old[start + 1].startswith("| ---"):
        lines = [lines[0], "| " + " | ".join("---" for _ in lines[0].strip("|").split("|")) + " |", *lines[2:]]
    if old[start] != lines[0]:
        update.look(f"docs/peers.md:{start + 1}: the columns were {old[start]}\n      and are {lines[0]}")
    PEERS_PAGE.write_text("\n".join([*old[:start], *lines, *old[end:]]) + "\n")


def replace_words(update: Update, section: str, pattern: str, new: str) -> None:
    """Replace the first match of a pattern after a heading of peers.md. Words that differ only in spaces stay."""
    text = PEERS_PAGE.read_text()
    found = re.compile(pattern).search(text, text.index(section))
    if found is None:
        update.look(f"docs/peers.md, {section!r}: nothing is like {pattern!r}; write {new!r} where it belongs")
    elif found[0].split() != new.split():
        PEERS_PAGE.write_text(text[: found.start()] + new + text[found.end() :])


def summed_up(update: Update, section: str, names: list[str]) -> list[str]:
    """Make the summary of a section from those of the card's files that exist. Return their names."""
    files = [f"results/{update.card}/{name}.csv" for name in names if (update.results / f"{name}.csv").exists()]
    lines = [line.split("|") for line in table_of(run(TABLES, "--summary", *files))]
    at = [cell.strip() for cell in lines[0]].index("file")
    replace_table(update, section, ["|".join([*line[:at], *line[at + 1 :]]) for line in lines])
    return files


def summary_table(update: Update) -> None:
    section = "## The other operators"
    files = summed_up(update, section, SUMMARISED)
    operators = len(files) + 1  # and matmul
    pattern = r"the\s+whole\s+configs\s+of\s+\w+\s+operators"
    replace_words(update, section, pattern, f"the whole configs of {NUMBERS[operators]} operators")
    for name in [*(Path(file).stem for file in files), "matmul"]:
        measure = json.loads((RESULTS / f"{name}.env.json").read_text())["measure"]
        how = f"{measure['timer']}, {measure['rounds']} rounds, {measure['rep_ms']} ms"
        update.facts[f"measured with {how}"] = f"{update.facts.get(f'measured with {how}', '')} {name}".strip()


def cases_table(update: Update, name: str, section: str, *by: str) -> None:
    """Make the table of a section with a line for each case, or for each size of the axis `by`."""
    text = run(TABLES, f"results/h200/{name}.csv", *by)
    replace_table(update, section, table_of(text))
    found = re.search(r"geomean of peer / ours: ([\d.]+); of torch-native / ours: ([\d.]+); over \d+ cases", text)
    assert found, text
    pattern = r"the\s+peer\s+takes\s+[\d.]+\s+times\s+our\s+time"
    new = f"the peer takes {float(found[1]):.2f} times our time"
    if name != GELU:  # its fastest peer is torch
        pattern, new = rf"{pattern},\s+and\s+torch\s+[\d.]+\s+times", f"{new}, and torch {found[2]} times"
    replace_words(update, section, pattern, new)
    rows = csv.DictReader((RESULTS / f"{name}.csv").open(newline=""))
    wrong = f"{sum(row['status'] == 'wrong' for row in rows)} rows are wrong"
    below = [line for line in text.splitlines() if line and not line.startswith("|")]
    update.facts[name] = "\n      ".join([*below, wrong])


def dispatch_table(update: Update) -> None:
    options, text = DispatchOptions(), DISPATCH.read_text()
    for label, names in DISPATCHED.items():
        files = [f"results/h200/{name}.csv" for name in names]
        found = dispatch([str(ROOT / file) for file in files], DispatchOptions(holdout=0))

        def choose(part: Evidence) -> Choose:
            return grow(part, options.limit, options.margin).choose

        tried = [lost_when_held_out(found.evidence, choose, options.holdout, seed) for seed in range(SPLITS)]
        means = [fmean(each.regret for each in lost) for lost in tried]
        worst = [max(each.regret for each in lost) for lost in tried]
        conditions = len(list(leaves(found.decision.tree))) - 1
        cells = f"{len(found.decision.providers)} | {conditions} | {percent(means, 2)} | {percent(worst, 1)}"
        line = f"| {label} | {cells} |"
        text, count = re.subn(rf"^\| {re.escape(label)} \|.*$", line, text, flags=re.MULTILINE)
        print(f"  {line}")
        if not count:
            update.look(f"docs/dispatch.md has no line for {label}; write {line}")
        if max(means) > GOAL:
            update.look(f"docs/dispatch.md: the mean regret of {label} is above {GOAL:.0%}")
        regret = run("tools/dispatch_regret.py", *files).strip()
        update.facts[f"dispatch_regret {label}"] = regret.replace("\n", "\n      ")
    DISPATCH.write_text(text)


def percent(values: list[float], digits: int) -> str:
    """The mean of some shares and their range."""
    low, mean, high = (f"{100 * value:.{digits}f}" for value in (min(values), fmean(values), max(values)))
    return f"{mean} %" if low == high else f"{mean} % ({low} to {high})"


def readme_sample(update: Update) -> None:
    text = README.read_text()

    def again(found: re.Match[str]) -> str:
        words = shlex.split(found[1])
        if "results/h200/softmax.csv" not in words:
            return found[0]
        return f"```console\n$ {found[1]}\n{run('-m', *words).strip()}\n```"

    new = re.sub(r"```console\n\$ (kbench .*?)\n.*?```", again, text, flags=re.DOTALL)
    if new != text:
        README.write_text(new)
        update.look("README.md: the sample has other times now; the sentences around it must still hold")


def make_all(update: Update) -> None:
    """Make the pictures, the tables and the sample of results of an H200, and say which sentences may quote them."""
    print("== pictures")
    for name in update.new:
        draw(update, name)
    print("== tables")
    new = set(update.new)
    if new & {*SUMMARISED, "matmul"}:
        summary_table(update)
    if PEERS in new:
        cases_table(update, PEERS, "## Softmax, tall")
    if SHORT in new:
        cases_table(update, SHORT, "## Softmax, few rows", "N")
    if GELU in new:
        cases_table(update, GELU, "## GELU, tall", "N")
    if new & {PEERS, SHORT}:
        dispatch_table(update)
    if "softmax" in new:
        readme_sample(update)
    add_figures(update)
    print("\n== sentences that may quote figures")
    print_sentences(update)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the new results")
    parser.add_argument("--card", choices=["h200", "h100"], default="h200", help="what they were measured on")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    found = sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.csv"))
    update = Update(folder, [name for name in CONFIGS if name in found], asked.card)
    if not update.new:
        sys.exit(f"{folder} has none of {', '.join(f'{name}.csv' for name in CONFIGS)}")
    if others := [name for name in found if name not in CONFIGS]:
        update.look(f"left alone, because no table is made of them: {', '.join(others)}")
    print(f"== results: {', '.join(update.new)}")
    for name in update.new:
        take(update, name)
    if asked.card == "h200":
        make_all(update)
    else:
        summed_up(update, "## On an H100", [*SUMMARISED, PEERS])
    print("\n== figures for the docs")
    for what, fact in update.facts.items():
        print(f"   {what}: {fact}")
    print("\n== changed files")
    print(subprocess.run(["git", "status", "--short"], cwd=ROOT, capture_output=True, text=True).stdout or "none\n")
    print("== to look at")
    for each in update.looks or ["nothing odd"]:
        print(f" * {each}")
    print("\n`make quick` finds sentences and samples that no longer hold.")


if __name__ == "__main__":
    main()
