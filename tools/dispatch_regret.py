"""How much `kbench dispatch` loses on held-out shapes, over many random splits.

    python tools/dispatch_regret.py results/h200/softmax-peers.csv results/h200/short/softmax-peers.csv

docs/dispatch.md shows its output. Each split holds out every shape once.
"""

from __future__ import annotations

import argparse
from statistics import fmean, median

from kbench.analysis.files import load_sources
from kbench.dispatching.dispatch import DispatchOptions
from kbench.dispatching.evidence import evidence_of
from kbench.dispatching.holdout import held_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="results files; one decision for all of them")
    parser.add_argument("--splits", type=int, default=20)
    arguments = parser.parse_args()
    options = DispatchOptions()
    evidence = evidence_of(load_sources(arguments.files, ""))
    tried = [
        held_out(evidence, options.limit, options.margin, options.holdout, seed=seed, splits=1)
        for seed in range(arguments.splits)
    ]
    found = [each for each in tried if each is not None]
    if not found:
        parser.error("the files have one shape, and a held-out test needs at least two")
    for name, regrets in [
        ("mean", [each.mean for each in found]),
        ("worst", [each.worst.regret for each in found]),
        (
            "worst of the cases that a neighbour predicts",
            [e.worst_elsewhere.regret for e in found if e.worst_elsewhere],
        ),
    ]:
        shares = [100 * regret for regret in regrets]
        print(
            f"{name}: mean {fmean(shares):.2f} %, median {median(shares):.2f} %, {min(shares):.2f} to {max(shares):.2f} %; "
            f"at most 5 % in {sum(share <= 5 for share in shares)} of {len(shares)} splits"
        )


if __name__ == "__main__":
    main()
