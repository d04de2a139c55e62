"""Figures of new results, and the sentences of the docs that quote such figures, for kernels_update.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import kernels_tables as tables
import pandas as pd
from kernels_results import BETWEEN, DRAWN, GELU, PEERS, RESULTS, ROOT, SHORT, SUMMARISED, Update

AHEAD = 0.995
"""A peer that takes less than this share of our time is listed."""

LONGEST = 262144
"""The row length at which a paragraph compares QuACK with ours and with the copy."""

SECTIONS = {
    "docs/peers.md": {
        "## Softmax, 4096 rows of float32": {"softmax"},
        "## The other operators": {*SUMMARISED, "matmul"},
        "## Softmax, tall": {PEERS},
        "## Softmax, few rows": {SHORT},
        "## Softmax, between those lengths": {BETWEEN},
        "## GELU, tall": {GELU},
    },
    "docs/dispatch.md": {"## What it loses": {PEERS, SHORT}},
    "docs/pictures.md": {"## Plots": {*DRAWN}},
    "README.md": {"## Who is fastest?": {"softmax"}},
}
"""The sections that quote figures, and the results that these are of."""

FIGURE = re.compile(
    r"\d|\b(?:none|no case|one|two|three|four|five|six|seven|eight|nine)\b|behind|ahead|only|not in the table", re.I
)


def add_figures(update: Update) -> None:
    """Where a peer is ahead, and the shares of the copy by row length."""
    for name in update.new:
        if name in DRAWN:
            continue
        times = tables.Times(str(RESULTS / f"{name}.csv"))
        lines = [*_against_peers(times), *_of_copy(times)]
        if name == SHORT and "quack" in times.us:
            lines += _of_quack(times)
        if name in (PEERS, SHORT):
            lines += _against_each_other(times, few=name == SHORT)
        update.facts[f"{name} in figures"] = "".join(f"\n      {line}" for line in lines)


def _against_peers(times: tables.Times) -> Iterator[str]:
    for place, names in (("", tables.OURS), (" in place", tables.OURS_IN_PLACE)):
        ours = times.ours(names).min(axis=1).dropna()
        if ours.empty:
            continue
        peers = times.peers(bool(place)).reindex(ours.index)
        ratio = (peers.min(axis=1) / ours).dropna().sort_values()
        for key, value in ratio[ratio < AHEAD].items():
            yield f"ahead of ours{place}: {peers.loc[key].idxmin()} {value:.3f} at {case(ratio, key)}"
        ends = [f"{ratio.iloc[at]:.3f} at {case(ratio, ratio.index[at])}" for at in (0, -1)] if len(ratio) else []
        if ends:
            yield f"least peer / ours{place}: {ends[0]}; most {ends[1]}"


def _of_copy(times: tables.Times) -> Iterator[str]:
    for provider in [each for each in tables.OURS if each in times.us]:
        share = times.of_copy(times.us[provider])[times.large].dropna()
        if share.empty:
            continue
        last = share.index.names[-1]
        levels = [each for each in share.index.names if each not in ("M", last)]
        for key, part in share.groupby(levels if len(levels) > 1 else levels[0]):
            lengths = part.index.get_level_values(last)
            text = ", ".join(f"{n}: {value:.3f}" for n, value in zip(lengths, part, strict=True))
            yield f"{provider} of copy by {last}, 64 MiB and more, {key}: {text}"


def _of_quack(times: tables.Times) -> Iterator[str]:
    for other, us in (("ours", times.ours().min(axis=1)), ("copy", times.us["copy"])):
        ratio = (times.us["quack"] / us).xs(LONGEST, level="N").round(3)
        yield f"quack / {other} at N={LONGEST}: {ratio.to_dict()}"


def _against_each_other(times: tables.Times, few: bool) -> Iterator[str]:
    both = (times.us["cuda"] / times.us["triton"]).sort_values()
    leads = both[both > (1.03 if few else 1.01)]
    yield "triton leads cuda: " + "; ".join(f"{value:.3f} at {case(both, key)}" for key, value in leads.items())
    if few:
        least = both[::-1][:12]
        yield "cuda leads triton least: " + "; ".join(
            f"{value:.3f} at {case(both, key)}" for key, value in least.items()
        )


def case(values: pd.Series[Any], key: Any) -> str:
    """The case of a key: `float32 M=16384 N=4096`."""
    parts = zip(values.index.names, key if isinstance(key, tuple) else (key,), strict=True)
    return " ".join(str(value) if isinstance(value, str) else f"{name}={value}" for name, value in parts)


def print_sentences(update: Update) -> None:
    """Print the sentences that may quote a figure of the new results, each with its file and line."""
    for file, sections in SECTIONS.items():
        lines = (ROOT / file).read_text().splitlines()
        for heading, needs in sections.items():
            if not needs & set(update.new):
                continue
            begin = lines.index(heading) + 1
            higher = re.compile(rf"#{{1,{len(heading.split()[0])}}} ")
            end = next((at for at in range(begin, len(lines)) if higher.match(lines[at])), len(lines))
            print(f"-- {file}, {heading} (new: {', '.join(sorted(needs & set(update.new)))})")
            for number, sentence in sentences(lines, begin, end):
                if FIGURE.search(sentence):
                    print(f"{file}:{number}: {sentence}")


def sentences(lines: list[str], begin: int, end: int) -> Iterator[tuple[int, str]]:
    """The sentences of the prose between two lines, each with the number of the line where it begins."""
    text, starts, fenced = "", [], False
    for at in range(begin, end):
        line = lines[at]
        fenced ^= line.startswith("```")
        prose = line and not fenced and not line.lstrip().startswith(("|", "```", "!", "<picture", "#"))
        piece = line if prose else "\n"  # sentences end there
        starts += [at + 1] * (len(piece) + 1)
        text += piece + " "
    for found in re.finditer(r"[^\n]+?(?:[.:](?=\s)|(?=\n)|$)", text):
        sentence = " ".join(found[0].split())
        if len(sentence) > 3:
            offset = found.start() + len(found[0]) - len(found[0].lstrip())
            yield starts[min(offset, len(starts) - 1)], sentence
