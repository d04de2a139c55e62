"""Prints how far salts move the readings: the same providers with and without them, in turns, in one process.

    python tools/measuring_salts.py [--timer graph] [--cache warm] [--repeats 4] [--moving] [--only OPERATOR]

"Without" means that the inputs neither change before a timed call nor move between rounds, and that no output is kept. On both
sides an output is let go before the next call. The place of an input in memory alone moves a short kernel by up to 2 %. With
--moving the inputs move between rounds on both sides, so the difference comes only from changed inputs and kept outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

from measuring_cases import Bench, Measured, Table, options

from kbench.measure.rounds import Rounds
from kbench.measure.salting.watch import Watch

CASES = [
    *(("softmax", {"M": 4096, "N": n}, ["torch-native", "triton"]) for n in (256, 1024, 4096, 12672)),
    *(("gelu", {"M": 4096, "N": n}, ["torch-native", "triton"]) for n in (256, 4096, 16384)),
    *(("layernorm", {"M": 4096, "N": n}, ["torch-native", "triton"]) for n in (1024, 4096)),
    ("layernorm", {"M": 4096, "N": 4096, "mode": "full"}, ["torch-native"]),
    ("add_rmsnorm", {"M": 4096, "N": 4096}, ["torch-native", "triton"]),
    ("cross_entropy", {"M": 4096, "V": 32000}, ["torch-native", "triton"]),
    ("cross_entropy", {"M": 4096, "V": 32000, "mode": "backward"}, ["torch-native"]),
    ("quantize_fp8", {"M": 4096, "N": 4096}, ["torch-native", "triton"]),
    ("matmul", {"M": 2048, "N": 2048, "K": 2048}, ["torch-native", "triton"]),
    ("matmul", {"M": 2048, "N": 2048, "K": 2048, "mode": "backward"}, ["torch-native"]),
]


@contextmanager
def without_salts(moving: bool) -> Iterator[None]:
    take = Rounds._take

    def still(self: Rounds, *rest: object) -> None:
        self.moves = self.moves and moving
        take(self, *rest)  # type: ignore[arg-type]

    unsalted = {"before": Watch.let_go, "after": Watch.let_go, "fault": lambda self: None}
    with patch.multiple(Watch, **unsalted), patch.object(Rounds, "_take", still):
        yield


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--moving", action="store_true", help="let the inputs move between rounds on both sides")
    parser.add_argument("--only", default="", help="measure the cases of this operator only")
    chosen = parser.parse_args()
    bench = Bench(chosen)
    print(f"{bench.device.name}, {chosen.timer}, {chosen.cache}\n")
    table = Table("without", "with", chosen.repeats)
    for name, axes, providers in CASES:
        if chosen.only not in ("", name):
            continue
        salted = partial(bench.run, name, axes, providers)

        def plain(salted: partial[Measured] = salted) -> Measured:
            with without_salts(chosen.moving):
                return salted()

        table.compare(plain, salted)
    table.summary()


if __name__ == "__main__":
    main()
