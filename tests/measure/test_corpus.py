"""Cheats that others have published, or that are plausible: a file each in tests/cheats, all in one run.

Each is found and named, and no honest provider beside it loses its time.
"""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from common import ROOT, Kbench

FOLDER = ROOT / "tests" / "cheats"

TIMED = "wrong while it was timed"

FOUND = {
    "address_cache": "wrong .*elements? wrong",
    "always_equal": "wrong returned Agreeable, a subclass of torch.Tensor",
    "batch_and_skip": f"wrong .*({TIMED}|correct at the first call|elements? wrong)",
    "changed_reference": "tampered replaced operator softmax.reference",
    "changed_rows_only": "ok $",  # every output is right, and nearly all rows are computed
    "constant_output": "wrong .*elements? wrong",
    "fingerprint_cache": f"wrong .*{TIMED}",
    "forked_child": "tampered started a process with os.fork at forked_child.py:",
    "frame_of_an_exception": "tampered inspected its callers with tb_frame at frame_of_an_exception.py:",
    "global_state": "ok changed torch.set_default_dtype from torch.float32 to torch.float16",
    "half_of_the_rows": "wrong .*(NaN|wrong|zero)",
    "idle_pool": "wrong left work on another thread when the call returned: ThreadPoolExecutor",
    "intercepted_torch": "tampered changed the stack of torch function modes",
    "known_answers": f"wrong .*{TIMED}",
    "lazy_after_many_calls": "wrong .*",
    "lazy_container": "wrong returned 0 values, expected 1: y",
    "lazy_output": "wrong returned Lazy, a subclass of torch.Tensor",
    "lower_precision": "wrong .*elements? wrong",
    "more_threads": "ok changed torch.set_num_threads from 1 to 2",
    "new_code_in_do_bench": "tampered replaced triton.testing.do_bench",
    "only_when_checked": "tampered inspected its callers with sys._getframe at only_when_checked.py:",
    "other_thread": "wrong left work on another thread when the call returned: fill",
    "patched_check": "tampered replaced kbench.measure.correctness.check.compared",
    "patched_clock": "tampered replaced time.perf_counter_ns",
    "patched_clock_at_import": r"tampered replaced time.perf_counter \(when its plug-in was imported\)",
    "patched_do_bench": "tampered replaced triton.testing.do_bench",
    "patched_equality": "tampered replaced torch.equal, torch.Tensor.__le__",
    "patched_event": "tampered replaced torch.cuda.Event.elapsed_time",
    "patched_profiler": "tampered replaced torch.profiler.profile.stop",
    "patched_statistics": "tampered replaced statistics.median",
    "patched_synchronize": "tampered replaced torch.accelerator.synchronize, torch.cuda.synchronize",
    "raises_when_timed": "error RuntimeError: no more at raises_when_timed.py:",
    "renamed_baseline": "ok runs the same torch operators as the baseline torch-native: aten._softmax$",
    "replaced_baseline": "tampered replaced operator softmax, provider torch-native",
    "replaced_driver": "tampered changed the active driver of Triton",
    "replaced_operator": "tampered changed torch's operators through torch.library",
    "same_memory": "wrong .*returned the same memory for two calls",
    "shadowed_builtin": "tampered replaced kbench.measure.timing.host_clock.max",
    "slow_baseline": "tampered replaced torch.softmax",
    "stale_memory": "wrong .*elements? (NaN|wrong|zero)",
    "stolen_answer": "tampered searched the memory of the process with gc.get_objects at stolen_answer.py:",
    "traced_harness": "tampered .*sys.setprofile",
    "value_cache": "ok $",  # inputs change before every timed call, so it never finds what it has stored
    "version_cache": f"wrong .*({TIMED}|same memory)",
    "zeroed_input": "wrong changed its input x in place",
}
"""By cheat: the status and the reason of its row."""

ON_A_DEVICE = {
    "changed_stream": "tampered changed the current stream",
    "other_stream": "wrong .*left work on another stream when the call returned: .*elements? (NaN|wrong|zero)",
}

NEEDS_TRITON = {"new_code_in_do_bench", "patched_do_bench", "replaced_driver"}

SWEEP = """
operator: softmax
sweep: {{M: {m}, N: {n}, dtype: float32}}
providers: [torch-native, {cheats}, honest]
baseline: torch-native
plugins: [{plugins}]
measure: {{warmup_ms: 1, rep_ms: 5, rounds: 2, threads: 1}}
"""

HONEST = '''
import torch, kbench

@kbench.operator("softmax").provider("honest")
def call(x):
    """Reads the settings that cheats change, so that it fails if one of them is still changed."""
    assert torch.get_num_threads() == 1 or x.is_cuda
    assert torch.get_default_dtype() == torch.float32
    numerator = (x - x.amax(-1, keepdim=True)).exp()
    return numerator / numerator.sum(-1, keepdim=True)
'''


def rows(kbench: Kbench, write_config, tmp_path: Path, names: list[str], m: int, n: int) -> pd.DataFrame:
    (tmp_path / "honest.py").write_text(HONEST)
    plugins = [*(FOLDER / f"{name}.py" for name in names), "honest.py"]
    text = SWEEP.format(m=m, n=n, cheats=", ".join(names), plugins=", ".join(map(str, plugins)))
    done = kbench("run", write_config(text), "--no-plot")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    found = pd.read_csv(tmp_path / "results" / "sweep.csv", keep_default_na=False, na_values={"ms": ""})
    return found.set_index("provider")


def check(found: pd.DataFrame, expected: dict[str, str]) -> None:
    said = {name: f"{found.loc[name].status} {found.loc[name].reason}" for name in expected}
    missed = {name: said[name] for name, pattern in expected.items() if not re.match(pattern, said[name])}
    assert not missed, "\n".join(map(" ".join, missed.items()))
    for name in ("torch-native", "honest", "copy", "repeat"):
        assert (found.loc[name].status, found.loc[name].reason) == ("ok", ""), name
        assert not {"same-ops", "altered-state"} & set(found.loc[name]["flags"].split(";")), name
    for name, row in found.loc[list(expected)].iterrows():
        assert ("altered-state" in row["flags"]) == (row.status == "ok" and row.reason.startswith("changed ")), name
        assert ("same-ops" in row["flags"]) == ("same torch operators as the baseline" in row.reason), name


@pytest.mark.slow
def test_every_cheat_is_found_and_named(kbench: Kbench, write_config, tmp_path: Path) -> None:
    expected = {name: words for name, words in FOUND.items() if find_spec("triton") or name not in NEEDS_TRITON}
    check(rows(kbench, write_config, tmp_path, list(expected), m=64, n=256), expected)


@pytest.mark.gpu
def test_every_cheat_with_streams_is_found_and_named(kbench: Kbench, write_config, tmp_path: Path) -> None:
    check(rows(kbench, write_config, tmp_path, list(ON_A_DEVICE), m=4096, n=1024), ON_A_DEVICE)


def test_every_cheat_is_tried_and_names_its_source() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(FOUND | ON_A_DEVICE)
    for path in FOLDER.glob("*.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert "\nSource: " in text, path.name
