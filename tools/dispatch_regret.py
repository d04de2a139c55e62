"""How much `kbench dispatch` loses on held-out shapes, over many random splits, and at which cases.

    python tools/dispatch_regret.py results/h200/softmax-peers.csv results/h200/short/softmax-peers.csv

docs/dispatch.md shows its output. Each split holds out every shape once. The last lines are of another rule, which needs all
results when it chooses: the provider with the least mean regret at the nearest shapes. A case at which this rule loses as much
as the tree is not a fault of the tree.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from statistics import fmean, median

import numpy as np

from kbench.analysis.files import load_sources
from kbench.dispatching.dispatch import DispatchOptions
from kbench.dispatching.evidence import Evidence, Point, evidence_of
from kbench.dispatching.grow import LARGEST_REGRET, grow
from kbench.dispatching.holdout import Choose, Lost, lost_when_held_out

GOAL = 0.05
"""Cases that lose more are named."""

NEAREST = (1, 3, 5)
"""How many nearest shapes the other rule asks."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="results files; one decision for all of them")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--holdout", type=float, default=DispatchOptions.holdout, help="the share that is held out")
    arguments = parser.parse_args()
    options = DispatchOptions(holdout=arguments.holdout)
    evidence = evidence_of(load_sources(arguments.files, ""))

    def tree(part: Evidence) -> Choose:
        return grow(part, options.limit, options.margin).choose

    tried = [lost_when_held_out(evidence, tree, options.holdout, seed) for seed in range(arguments.splits)]
    if not all(tried):
        parser.error("the files have one shape, and a held-out test needs at least two")
    report("mean", [fmean(each.regret for each in lost) for lost in tried])
    report("worst", [max(each.regret for each in lost) for lost in tried])
    elsewhere = [[each.regret for each in lost if not each.isolated] for lost in tried]
    report("worst of the cases that a neighbour predicts", [max(regrets) for regrets in elsewhere if regrets])
    name_worst(tried)
    for count in NEAREST:
        rule = partial(nearest, count=count)
        tried = [lost_when_held_out(evidence, rule, options.holdout, seed) for seed in range(arguments.splits)]
        print(f"\nby the {count} nearest measured shapes:" if count > 1 else "\nby the nearest measured shape:")
        report("mean", [fmean(each.regret for each in lost) for lost in tried])
        report("worst", [max(each.regret for each in lost) for lost in tried])
        name_worst(tried)


def nearest(part: Evidence, count: int) -> Choose:
    """Chooses by the mean regrets at the nearest shapes, weighted by the inverse distance of the logarithms of the sizes."""
    sizes = np.log2(np.maximum(np.array([part.values(name) for name in part.numbers], dtype=float).T, 1e-9))
    worded = [argument.name for argument in part.arguments if argument.words]
    everywhere = [index for index in range(len(part.providers)) if np.isfinite(part.measured[:, index]).all()]
    regrets = np.minimum(part.measured[:, everywhere], LARGEST_REGRET)

    def choose(point: Point) -> str:
        alike = [case for case, other in enumerate(part.points) if all(other[name] == point[name] for name in worded)]
        place = np.log2(np.maximum(np.array([point[name] for name in part.numbers], dtype=float), 1e-9))
        distances = np.sqrt(((sizes[alike] - place) ** 2).sum(axis=1))
        chosen = np.argsort(distances, kind="stable")[:count]
        weighted = (regrets[alike][chosen] / distances[chosen][:, None]).sum(axis=0)
        return part.providers[everywhere[int(np.argmin(weighted))]]

    return choose


def report(name: str, regrets: list[float]) -> None:
    shares = [100 * regret for regret in regrets]
    print(
        f"{name}: mean {fmean(shares):.2f} %, median {median(shares):.2f} %, {min(shares):.2f} to {max(shares):.2f} %; "
        f"at most {100 * GOAL:.0f} % in {sum(share <= 100 * GOAL for share in shares)} of {len(shares)} splits"
    )


def name_worst(tried: list[list[Lost]]) -> None:
    """A line for each case and provider that loses more than the goal in some split."""
    beyond = [each for lost in tried for each in lost if each.regret > GOAL]
    labels = [" ".join(f"{name}={value}" for name, value in each.point.items()) for each in beyond]
    counts = Counter(
        f"{100 * each.regret:.2f} % for {each.provider} at {label}" for label, each in zip(labels, beyond, strict=True)
    )
    for text, count in counts.most_common():
        print(f"  {text}: in {count} of {len(tried)} splits")


if __name__ == "__main__":
    main()
