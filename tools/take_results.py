"""Takes new results into results/, and makes the tables of PAGES and the committed pictures again.

    python tools/take_results.py FOLDER              results of an H200: FOLDER has CONFIG.csv and CONFIG.env.json
    python tools/take_results.py FOLDER --card h100  into results/h100
    python tools/take_results.py                     only the tables, from the results that are there

FOLDER may have folders such as `short`, named after profiles. The sentences around the tables are yours to write.

A table stands between a mark such as `<!-- cases: FILE -->` and `<!-- end -->`. `cases` has a line for each
case of a file, `sizes` a line for each N, and `summary` a line for each mode of some files. "Ours" is the faster of `cuda` and
`triton`, and the peer is the fastest other provider that is right. Ours in place is compared with every peer, and ours out of
place with peers that are out of place too.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
from scipy.stats import gmean

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs/peers.md", ROOT / "docs/reference/peers.md")
MARKED = re.compile(r"(<!-- (cases|sizes|summary): (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
PATH = re.compile(r"(?<![\w./:-])/[a-z]\w*/[^\s\"',;)]*")
"""A path of the machine that measured, such as `/usr/lib/python3/torch/nn/functional.py`."""
UUID = re.compile(r"\b(GPU|MIG)-[0-9a-f-]{36}")

OURS = ("cuda", "triton")
OURS_IN_PLACE = ("triton-in-place", "cuda-in-place")
IN_PLACE = {("add_rmsnorm", "flashinfer"), ("add_rmsnorm", "vllm")}
"""Operators and providers that write over their inputs, beside those whose names end with `-in-place`."""

WORDS, SIZES, MODES = ("approximate", "weight_dtype", "mode"), ("M", "N", "V", "K"), ("forward", "backward", "full")
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}
LARGE_BYTES = 64 * 2**20
"""Matrices from this size on are held against the copy."""


class Times:
    """The times of a results file in microseconds, one line per case and one column per provider.

    A time is the median over sessions. Of a provider with parameters, it is that of the fastest configuration.
    """

    def __init__(self, file: str) -> None:
        frame = pd.read_csv(ROOT / file, dtype={"params": str})
        self.operator = str(frame["operator"].iloc[0])
        words = [name for name in WORDS if name in frame and (frame[name].nunique() > 1 or name == "approximate")]
        self.modes = frame["mode"].unique() if "mode" in frame else ["forward"]
        sizes = [name for name in SIZES if name in frame]
        case = [*words, "dtype", *sizes]
        timed = frame[frame["status"] == "ok"].fillna({"params": ""})
        medians = timed.groupby([*case, "provider", "params"])["ms"].median()
        self.us = medians.groupby([*case, "provider"]).min().unstack("provider") * 1e3
        keys = self.us.index.to_frame()
        matrix = keys[sizes[:2]].prod(axis=1) * keys["dtype"].map(ITEMSIZE)
        self.large = matrix >= LARGE_BYTES

    def ours(self, names: Iterable[str] = OURS) -> pd.Series:
        return self.us[[name for name in names if name in self.us]].min(axis=1).dropna()

    def peers(self, in_place: bool = False) -> pd.DataFrame:
        """The times of the peers. Those that work in place are among them only if `in_place`."""
        left_out = {*OURS, *OURS_IN_PLACE, "copy", "empty", "repeat"}
        names = [name for name in map(str, self.us) if name not in left_out]
        if not in_place:
            names = [name for name in names if not (name.endswith("-in-place") or (self.operator, name) in IN_PLACE)]
        return self.us[names]


def cases(file: str) -> str:
    """A line for each case: the times of the copy, of ours and of the peer, and their ratios."""
    times = Times(file)
    peers, ours = times.peers(), times.ours()
    table = times.us[["copy", *OURS]].round(2)
    table["peer"] = [f"{row.min():.2f} {row.idxmin()}" for _, row in peers.iterrows()]
    table["peer / ours"] = (peers.min(axis=1) / ours).round(3)
    table["torch / ours"] = (times.us["torch-native"] / ours).round(2)
    for name in OURS:
        table[f"{name} of copy"] = (times.us["copy"] / times.us[name]).round(3)
    return f"{_means(times)}\n\n{markdown(table.reset_index())}"


def sizes(file: str) -> str:
    """A line for each N: our time, and in brackets how many times as long the peer takes."""
    times = Times(file)
    ours, ratio = times.ours(), times.peers().min(axis=1) / times.ours()
    cells = ours.map("{:.2f}".format) + ratio.map(" ({:.2f})".format)
    per_n = cells.index.to_frame().groupby(level="N").nunique()
    columns = [name for name in cells.index.names if name != "N" and per_n[name].max() > 1]
    table = cells.droplevel([name for name in cells.index.names if name not in ("N", *columns)]).unstack(columns)
    table.columns = pd.Index([", ".join(map(str, key)) for key in table.columns])
    return f"{_means(times)}\n\n{markdown(table.reset_index())}"


def _means(times: Times) -> str:
    ours = times.ours()
    peer, torch = (gmean((other / ours).dropna()) for other in (times.peers().min(axis=1), times.us["torch-native"]))
    return f"In the geometric mean of {len(ours)} cases, the peer takes {peer:.2f} times our time, and torch {torch:.2f} times."


def summary(words: str) -> str:
    """A line for each mode of the files of a folder: how ours stands against the best peer, and against the copy."""
    folder, *names = words.split()
    return markdown(pd.DataFrame([line for name in names for line in _standings(Times(f"{folder}/{name}.csv"))]))


def _standings(times: Times) -> Iterator[dict[str, object]]:
    for mode in [mode for mode in MODES if mode in times.modes]:
        for place, names in (("", OURS), (", in place", OURS_IN_PLACE)):
            ours = times.ours(names)
            if "mode" in ours.index.names:
                ours = ours[ours.index.get_level_values("mode") == mode]
            if ours.empty:
                continue
            ratio = (times.peers(bool(place)).min(axis=1) / ours).dropna()
            of_copy = (times.us["copy"] / ours)[times.large].dropna()
            worst = zip(ratio.index.names, ratio.index[int(ratio.argmin())], strict=True)
            named = [f"{axis}={value}" if axis in SIZES else value for axis, value in worst if axis != "mode"]
            yield {
                "operator": f"{times.operator} {mode}{place}",
                "cases": len(ours),
                "with a peer": len(ratio),
                "peer / ours": f"{gmean(ratio):.3f}",
                "behind by > 1 %": int((ratio < 0.99).sum()),
                "worst": f"{ratio.min():.3f} at {' '.join(named)}",
                "of copy, 64 MiB and more: least": f"{of_copy.min():.3f}",
                "median": f"{of_copy.median():.3f}",
            }


def markdown(table: pd.DataFrame) -> str:
    rows = [list(table.columns), ["---"] * len(table.columns), *table.fillna("").itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def made(page: Path) -> str:
    """A page as it has to be."""
    kinds = {"cases": cases, "sizes": sizes, "summary": summary}
    return MARKED.sub(lambda found: f"{found[1]}\n{kinds[found[2]](found[3])}\n\n{found[4]}", page.read_text())


# ---- new results


def take(path: Path, target: Path) -> None:
    """Copy a results file and the files beside it without the paths and the UUIDs of a machine. Print what is odd."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".csv", ".env.json", ".kernels.jsonl"):
        beside, copy = path.with_suffix(suffix), target.with_suffix(suffix)
        if beside.exists():
            text = PATH.sub(lambda found: Path(found[0]).name, beside.read_text())
            copy.write_text(UUID.sub("", text))
        else:
            copy.unlink(missing_ok=True)
    frame, environment = pd.read_csv(target), json.loads(target.with_suffix(".env.json").read_text())
    failed = frame[~frame["status"].isin(["ok", "unsupported"])]
    flags = frame["flags"].fillna("")
    print(f"{target.relative_to(ROOT)}: {len(frame)} rows of {environment['device']}")
    for row in failed.itertuples():
        print(f"  {row.status}: {row.provider} {row.dtype}: {row.reason}")
    print(f"  {flags.str.contains('noisy').sum()} noisy, {flags.str.contains('suspect').sum()} suspect")


def draw(target: Path) -> None:
    """Draw the committed pictures of a results file again. Their names say how: softmax-large_winners_dark.png."""
    command = ["git", "ls-files", f"{target.stem}_*.png", f"{target.stem}_*.svg"]
    listed = subprocess.run(command, cwd=target.parent, capture_output=True, text=True)
    pictures = [name for name in listed.stdout.split() if "/" not in name]
    with tempfile.TemporaryDirectory() as scratch:
        for metric, dark in sorted({(_metric(name), "_dark" in name) for name in pictures}):
            options = ["--kind", "heatmap"] if metric == "winners" else ["--metric", metric]
            theme = ["--theme", "dark" if dark else "light", "--out", scratch]
            subprocess.run([sys.executable, "-m", "kbench", "plot", target, *options, *theme], cwd=ROOT, check=True)
        for name in pictures:
            if (drawn := Path(scratch) / name).exists():
                shutil.copyfile(drawn, target.with_name(name))
            else:
                print(f"  not drawn again: {name}")


def _metric(picture: str) -> str:
    return next(
        metric for metric in ("winners", "copy_fraction", "peak_bytes", "tflops", "gbps") if f"_{metric}" in picture
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="the new results")
    parser.add_argument("--card", default="h200", help="what they were measured on: a folder of results/")
    asked = parser.parse_args()
    for path in sorted(asked.folder.rglob("*.csv")) if asked.folder else []:
        target = ROOT / "results" / asked.card / path.relative_to(asked.folder)
        take(path, target)
        draw(target)
    for page in PAGES:
        page.write_text(made(page))


if __name__ == "__main__":
    main()
