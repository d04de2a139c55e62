"""Prints how far restoring mutated inputs moves the readings of other providers.

    python tools/measuring_restoring.py [--timer graph] [--repeats 4]

Providers in place overwrite an input, which kbench restores before each of their calls, outside of the timed window. The tool
measures providers out of place with such providers beside them and without, in turns, in one process.
"""

from __future__ import annotations

from functools import partial

from measuring_cases import Bench, Table, options

OUT_OF_PLACE = ("torch-native", "triton", "cuda")
IN_PLACE = ("torch-in-place", "triton-in-place")
SIZES = ((1024, 4096), (4096, 4096), (8192, 4096), (1024, 65536))
"""Rows and row lengths: short calls and long ones."""


def main() -> None:
    chosen = options(__doc__).parse_args()
    bench = Bench(chosen)
    print(f"{bench.device.name}, {chosen.timer}, {chosen.cache}\n")
    table = Table("alone", "beside in-place", chosen.repeats)
    for m, n in SIZES:
        for dtype in ("float32", "bfloat16"):
            run = partial(bench.run, "add_rmsnorm", {"M": m, "N": n, "dtype": dtype})
            table.compare(partial(run, OUT_OF_PLACE), partial(run, OUT_OF_PLACE + IN_PLACE))
    table.summary()


if __name__ == "__main__":
    main()
