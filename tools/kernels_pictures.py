"""Draws the committed pictures of a results file of results/h200 again, for kernels_update.py."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from kernels_results import GELU, PATH, PEERS, RESULTS, ROOT, SHORT, Update, run, tracked

COPY = ["--metric", "copy_fraction"]
WINNERS = ["--kind", "heatmap", "--format", "png"]
DARK = ["--theme", "dark"]
PICTURES = {
    "rmsnorm": [COPY],
    "add_rmsnorm": [COPY],
    "layernorm": [COPY],
    PEERS: [COPY],
    "swiglu": [COPY],
    "quantize_fp8": [COPY],
    "matmul": [["--where", "dtype=bfloat16,N=4096", "--format", "png"]],
    "softmax-large": [[], WINNERS, [*WINNERS, *DARK]],
    "softmax": [[], [*DARK, "--format", "png"]],
    "softmax-ladder": [[], [*DARK, "--format", "png"]],
    "softmax-persistent": [[]],
    "softmax-providers": [[]],
    "softmax-warps": [[]],
    "gelu": [[]],
    "gelu-providers": [[]],
    GELU: [COPY],
    SHORT: [WINNERS],
}
"""The options of `kbench plot` that make the committed pictures."""

LARGER = 1.02
"""A picture that grows by more than this is worth a look: people download it with the repository."""


def draw(update: Update, name: str) -> None:
    """Replace the committed pictures of a results file. Pictures that `kbench plot` draws beside them are left out."""
    folder = (RESULTS / name).parent
    own = re.compile(rf"{re.escape(Path(name).name)}_[a-z_0-9]+\.(png|svg)")
    committed = {path.name for path in tracked(folder) if path.parent == folder and own.fullmatch(path.name)}
    with tempfile.TemporaryDirectory() as scratch:
        for options in PICTURES.get(name, []):
            run("-m", "kbench", "plot", str((RESULTS / f"{name}.csv").relative_to(ROOT)), *options, "-o", scratch)
        made = {path.name: path for path in Path(scratch).iterdir()}
        for missing in sorted(committed - made.keys()):
            update.look(
                f"{(folder / missing).relative_to(ROOT)} was not drawn again (drawn: {', '.join(sorted(made))})"
            )
        for extra in sorted(made.keys() - committed):
            update.look(f"{name}: `kbench plot` also drew {extra}, which is not committed; left out")
        for each in sorted(committed & made.keys()):
            _replace(update, folder / each, made[each])


def _replace(update: Update, target: Path, made: Path) -> None:
    before = target.stat().st_size
    if made.suffix == ".png" and made.stat().st_size > before:
        squeeze(made)
    if made.suffix == ".svg" and PATH.search(made.read_text()):
        update.look(f"{target.name} contains a path")
    if made.stat().st_size > before * LARGER:
        update.look(f"{target.name} has {made.stat().st_size} bytes, and had {before}")
    shutil.copyfile(made, target)


def squeeze(path: Path) -> None:
    """The same pixels in fewer bytes."""
    from PIL import Image

    smaller = path.with_suffix(".smaller")
    with Image.open(path) as image:
        image.save(smaller, format="PNG", optimize=True, dpi=image.info.get("dpi"))
    if smaller.stat().st_size < path.stat().st_size:
        smaller.replace(path)
    else:
        smaller.unlink()
