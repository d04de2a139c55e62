"""The column `source_hash`: it changes with the code of a provider, and with nothing else."""

from __future__ import annotations

from pathlib import Path

from promises.outside import Kbench, Write, providers_of

PLUGIN = """
from pathlib import Path

import kbench

twice = kbench.Operator(
    "twice", axes=("N",), inputs={"x": kbench.Tensor("N")}, outputs={"y": kbench.Tensor("N")}, reference=lambda x: x * 2
)
KERNELS = Path(__file__).with_name("mine.cu")


@twice.provider("mine", sources=[Path(__file__).with_name("table.txt")])
def mine(x):
    return x + x
"""

CONFIG = """
operator: twice
plugins: [mine.py]
sweep: {N: 8}
providers: [mine]
measure: {rounds: 1, warmup_ms: 1, rep_ms: 1, cache: warm}
"""


def test_it_covers_sources_and_the_cuda_files_that_a_plug_in_names_with_their_headers(
    kbench: Kbench, write: Write, folder: Path
) -> None:
    write("mine.py", PLUGIN)
    write("mine.yaml", CONFIG)
    write("mine.cu", '#include "mine.cuh"\n')
    for name in ("mine.cuh", "table.txt", "other.cuh", "helper.py"):
        write(name, "")

    def source_hash() -> str:
        ended = kbench("run", "mine.yaml", "--out", "results", "--no-plot")
        assert ended.code == 0, ended.text
        [row] = providers_of(folder / "results" / "mine.csv")
        return row["source_hash"]

    found = [source_hash()]
    for changed in (("other.cuh", "helper.py"), ("mine.cuh",), ("table.txt",)):
        for name in changed:
            write(name, "// changed\n" if name.endswith("h") else "# changed\n")
        found.append(source_hash())
    assert len(found[0]) == 12 and found[0] == found[1]
    assert len(set(found)) == 3
