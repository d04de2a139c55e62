"""Reads its arguments and its own file, prints, makes a picture, appends to a log, removes a file, and ends with exit(3)."""

import os
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import triton.testing

HERE = Path(__file__).parent
assert __name__ == "__main__" and sys.argv[1:] == ["--size", "300"], sys.argv
assert (HERE / "note.txt").read_text() == "a note\n"


@triton.testing.perf_report(
    triton.testing.Benchmark(
        ["N", "kind"], [(int(sys.argv[2]), "a,b"), (int(sys.argv[2]), None)], "fn", [torch.abs, torch.neg], ["abs", "neg"],
        plot_name="odd/plot (1)", args={"shape": [2, 3], "params": True, "scale": 0.5}, ylabel="time",
    )
)  # fmt: skip
def bench(N, kind, fn, shape, params, scale):
    if fn is torch.neg and kind is None:
        raise RuntimeError("no neg for None")
    x = torch.randn(N) * scale
    samples = triton.testing.do_bench(lambda: fn(x), rep=2, return_mode="all")
    assert isinstance(samples, list)
    return samples[0]


print("this goes to stdout")
bench.run(print_data=True, show_plots=True)
plt.plot([1, 2])
plt.savefig(HERE / "picture.png")
plt.show()
with open(HERE / "note.txt", "a") as log:
    log.write("times\n")
assert (HERE / "note.txt").read_text() == "a note\ntimes\n"
os.remove("old.csv")
with tempfile.TemporaryDirectory() as folder:  # as Triton has one for each kernel that it compiles
    (Path(folder) / "kernel.c").write_text("int x;")
assert not Path(folder).exists()
exit(3)
