"""`kbench why --import`: what the hardware counted sharpens the reasons. The reports have the form and
the numbers of recorded ones (see tests/counters/ncu_tables.py)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from common import Kbench
from counters.ncu_tables import GOOD, RECORDED, STALLED, raw_page
from making import write_rows
from why.test_why import FULL, H200, KERNEL, LAUNCH, NAME, launched, timed

from kbench.counters.kernel_counters import NCU_METRICS
from kbench.execute.kernels_writer import KernelsWriter
from kbench.launches.launched_call import LaunchedCall
from kbench.protocol import CallRecorded
from kbench.why.counted_lines import counted_lines
from kbench.why.counted_reasons import counted_reasons
from kbench.why.counting import with_report
from kbench.why.facts import RowFacts, find_facts
from kbench.why.reasons import find_reasons

ROWS = "_Z4rowsPf"
UNCOALESCED = RECORDED["uncoalesced"]
SPILLING = RECORDED["spilled"]
FEW_WARPS = RECORDED["crowded"]
SMALL = GOOD | dict.fromkeys(("dram__bytes_read.sum", "dram__bytes_write.sum"), "10,000,000")
TWICE = GOOD | {"dram__bytes_read.sum": "134,217,728", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "93"}
BARRIER = GOOD | {STALLED.format("barrier"): "2,000"}
TWO_KERNELS = LaunchedCall((LAUNCH, replace(LAUNCH, kernel=replace(KERNEL, name="last", symbol="last"))))


def results(folder: Path, call: LaunchedCall = FULL, **fields: object) -> Path:
    path = write_rows(folder / "softmax.csv", [timed(call, **fields)])
    KernelsWriter(path, keep=False).write([CallRecorded(call, H200)], NAME)
    return path


def counted(path: Path, *kernels: tuple[str, Mapping[str, str]]) -> RowFacts:
    """What is known of the only row of a results file, with a report on these kernels."""
    report = path.with_name("report.csv")
    report.write_text(raw_page(*kernels))
    [facts], _ = find_facts(path, "")
    return with_report(facts, report)


def reasons(path: Path, metrics: Mapping[str, str], launches: int = 1) -> list[tuple[str, str]]:
    return [(each.kind, each.sentence) for each in find_reasons(counted(path, *[(ROWS, metrics)] * launches))]


@pytest.mark.parametrize(
    ("metrics", "call", "fields", "kind", "said"),
    [
        (UNCOALESCED, FULL, {}, "uncoalesced", "rows use 12% of the bytes that their stores move: a store of a warp"),
        (SPILLING, launched(4, registers=255, local_bytes=512), {}, "spills", "rows reads and writes 4827.0 MB of local"),
        (FEW_WARPS, launched(1, static_shared_bytes=200_000), {}, "low-occupancy", "holds 5% of the warps that it could hold "
         "(at most 4 blocks fit, because of shared memory)"),
        (SMALL, launched(times=20), {"kernels": 20}, "many-kernels", "A call launches 20 kernels."),
        (GOOD, FULL, {"launch_ms": 1.5}, "host-bound", "The host takes 1500 us"),
        (GOOD, FULL, {"copy_fraction": 0.97}, "at-speed", "97% of the speed of a copy"),
        (TWICE, FULL, {"sol": 0.6}, "memory-bound", "keeps the device's memory busy at 93% of the peak"),
        (BARRIER, FULL, {}, "stalled", "spend 94% of their time waiting for the other warps of the block at a"),
    ],
)  # fmt: skip
def test_the_first_sentence_names_the_reason_with_its_number(
    tmp_path: Path, metrics: Mapping[str, str], call: LaunchedCall, fields: dict[str, object], kind: str, said: str
) -> None:
    found = reasons(results(tmp_path, call, **fields), metrics, launches=call.kernels)
    assert found[0][0] == kind and said in found[0][1], found


def test_the_sectors_of_a_load_are_counted(tmp_path: Path) -> None:
    said = reasons(results(tmp_path), UNCOALESCED)[0][1]
    assert "a store of a warp touches 32.0 sectors of 32 bytes" in said


def test_sectors_that_the_l1_cache_keeps_are_not_wasted(tmp_path: Path) -> None:
    kept = UNCOALESCED | {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum": "300,000",
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct": "100",
    }
    assert "uncoalesced" not in {kind for kind, _ in reasons(results(tmp_path), kept)}


def test_bytes_are_compared_with_those_of_the_operator(tmp_path: Path) -> None:
    found = dict(reasons(results(tmp_path), TWICE))
    moved = "move 192.5 MB from and to the device's memory, 1.4 times the 134.2 MB that they have to; 50%"
    assert moved in found["extra-bytes"]
    uncached = UNCOALESCED | {"dram__bytes_read.sum": "536,870,912"}
    kinds = [kind for kind, _ in reasons(results(tmp_path), uncached)]
    assert kinds.index("uncoalesced") < kinds.index("extra-bytes"), "the cause comes before what follows from it"


def test_counters_overrule_what_the_launches_suggest(tmp_path: Path) -> None:
    spilling = launched(4, registers=255, local_bytes=512)
    path = results(tmp_path, spilling, achieved_gbps=3 * 1342.17728)
    [facts], _ = find_facts(path, "")
    assert {"spills", "extra-bytes"} <= {each.kind for each in find_reasons(facts)}
    assert not {"spills", "extra-bytes"} & {kind for kind, _ in reasons(path, GOOD)}


def test_a_row_without_counters_has_no_reason_of_theirs(tmp_path: Path) -> None:
    [facts], _ = find_facts(results(tmp_path), "")
    assert counted_reasons(facts) == []


def test_the_page_and_the_json_show_what_was_counted(kbench: Kbench, tmp_path: Path) -> None:
    path, report = results(tmp_path), tmp_path / "report.csv"
    report.write_text(raw_page((ROWS, GOOD)))
    ended = kbench("why", path, "--import", report)
    assert ended.returncode == 0, ended.stderr
    page = " ".join(ended.stdout.split())
    assert (
        "triton: what the hardware counted in a call rows: 31.94 us while counting, 67.1 MB read from the device's"
        in page
    )
    assert "L2 hit rate 50%, achieved occupancy 76%" in page
    assert "rows: of their time, the warps wait 92% for data from global or local memory (long_scoreboard)" in page
    assert "58.3 MB written to it, 8.8 MB of what was stored are still in the L2 cache at its end" in page
    assert "ncu --kernel-name" not in page, "it was counted already"
    found = json.loads(kbench("why", path, "--import", report, "--json").stdout)["rows"][0]
    assert found["counters"][0]["dram_read_bytes"] == 67114752


@pytest.mark.parametrize(
    ("metrics", "launches", "said"),
    [
        (GOOD | {"dram__bytes_write.sum": "600,000"}, 1, "66.5 MB of what was stored are still in the L2 cache at its"),
        (GOOD | {"dram__bytes_write.sum": "600,000"}, 4, "still in the L2 cache at the end of each, memory at"),
        (GOOD | {"dram__bytes_write.sum": "66,000,000"}, 1, ""),
        (UNCOALESCED, 1, ""),  # its stores move eight times the bytes that it stores
    ],
)  # fmt: skip
def test_what_was_stored_and_did_not_reach_memory_is_said(
    tmp_path: Path, metrics: Mapping[str, str], launches: int, said: str
) -> None:
    facts = counted(results(tmp_path, launched(times=launches)), *[(ROWS, metrics)] * launches)
    page = " ".join(counted_lines(facts))
    assert said in page and ("L2 cache at" in page) is bool(said)


def test_an_impossible_hit_rate_is_not_shown(tmp_path: Path) -> None:
    """An H200 counted 151 % of a kernel."""
    assert "hit rate" not in " ".join(counted_lines(counted(results(tmp_path), (ROWS, FEW_WARPS))))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.csv", None, "--import none.csv: no such file"),
        (".", None, "--import .: cannot be read (is a folder)"),
        ("bad.csv", "a,b\n", 'bad.csv: is not an Nsight Compute report: it has no column "Kernel Name"'),
        ("other.csv", raw_page(("copy", GOOD)), "a call launches rows(float*), and the report has copy"),
        ("empty.ncu-rep", "", "empty.ncu-rep: is not an Nsight Compute report: it is empty"),
    ],
)
def test_a_report_that_cannot_be_used_is_bad_input(
    kbench: Kbench, tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    path = results(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    ended = kbench("why", path, "--import", name)
    assert ended.returncode == 2 and said in " ".join(ended.stderr.split()), ended.stderr


def test_a_report_of_perhaps_another_row_is_doubted(kbench: Kbench, tmp_path: Path) -> None:
    path, report = results(tmp_path), tmp_path / "report.csv"
    path.with_suffix(".kernels.jsonl").unlink()
    report.write_text(raw_page(("copy", GOOD)))
    ended = kbench("why", path, "--import", report)
    said = " ".join(ended.stderr.split())
    assert (
        ended.returncode == 0
        and "so kbench cannot tell whether" in said
        and "report.csv is a report of this row" in said
    )


def test_the_page_ends_with_the_command_that_counts_in_one_call_of_the_row(kbench: Kbench, tmp_path: Path) -> None:
    path = results(tmp_path, launched(times=3))
    path.with_suffix(".env.json").write_text('{"config": {"path": "bench/softmax.yaml"}}')
    *_, command, _, _, _, show = kbench("why", path).stdout.splitlines()
    words = shlex.split(command)
    assert words[:5] == ["ncu", "--kernel-name-base", "mangled", "--kernel-name", "regex:^(_Z4rowsPf)$"]
    assert words[words.index("--launch-count") + 1] == "3" and words[words.index("--cache-control") + 1] == "all"
    assert NCU_METRICS["dram_read_bytes"][0] in words[words.index("--metrics") + 1]
    run = ["kbench", "run", "bench/softmax.yaml", "--only", "triton", "--set", "dtype=float32", "--set", "M=4096"]
    assert words[words.index("kbench") :][: len(run)] == run
    assert show == f"kbench why {path} --row provider=triton --import report.ncu-rep"


def test_without_ncu_it_says_what_to_install(kbench: Kbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results(tmp_path)
    monkeypatch.setattr("kbench.counters.report_file.find_ncu", lambda: None)
    (tmp_path / "r.ncu-rep").write_bytes(b"\0")
    ended = kbench("why", tmp_path / "softmax.csv", "--import", tmp_path / "r.ncu-rep")
    said = " ".join(ended.stderr.split())
    assert (
        ended.returncode == 2
        and "so kbench needs NVIDIA's program ncu to read it, and ncu is not installed here" in said
    )
    assert "ncu --import r.ncu-rep --csv --page raw --print-units base --print-kernel-base mangled > report.csv" in said


MODULE = """
class Metric:
    def __init__(self, value, unit): self._value, self._unit = value, unit
    def value(self): return self._value
    def unit(self): return self._unit
class Action:
    NameBase_MANGLED = 2
    values = {"gpu__time_duration.sum": Metric(5.0, "us"), "dram__bytes_read.sum": Metric(7, "byte"),
              "device__attribute_name": Metric("H200", ""), "x": Metric(1, "")}
    def name(self, base): return "_Z4rowsPf"
    def metric_names(self): return list(self.values)
    def metric_by_name(self, name): return self.values[name]
class Range:
    def num_actions(self): return 1
    def action_by_idx(self, number): return Action()
class Report:
    def num_ranges(self): return 2
    def range_by_idx(self, number): return Range()
def load_report(path):
    if open(path, "rb").read() == b"broken": raise RuntimeError("cannot open")
    return Report()
"""


def test_nvidias_module_reads_a_report_where_there_is_no_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbench.counters.report_file.find_ncu", lambda: None)
    (tmp_path / "ncu_report.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ncu_report", raising=False)
    report = tmp_path / "r.ncu-rep"
    report.write_bytes(b"fine")
    [facts], _ = find_facts(results(tmp_path), "")
    [one] = with_report(facts, report).counters
    assert (one.launches, one.time_ns, one.dram_read_bytes) == (1, 5000, 7), "two launches are two calls"
    report.write_bytes(b"broken")
    with pytest.raises(Exception, match=r"r.ncu-rep: is not an Nsight Compute report: cannot open"):
        with_report(facts, report)
    monkeypatch.delitem(sys.modules, "ncu_report")


def test_several_kernels_share_the_time(tmp_path: Path) -> None:
    last = GOOD | {"gpu__time_duration.sum": "900,000"}
    facts = counted(results(tmp_path, TWO_KERNELS), (ROWS, BARRIER), ("last", last))
    found = [each for each in counted_reasons(facts) if each.kind == "stalled"]
    assert [round(each.weight, 3) for each in found] == [0.032, 0.893]


def test_caches_that_were_emptied_between_kernels_are_said(tmp_path: Path) -> None:
    facts = counted(results(tmp_path, TWO_KERNELS), (ROWS, GOOD), ("last", GOOD))
    [found] = [each for each in counted_reasons(facts) if each.kind == "extra-bytes"]
    assert found.sentence.endswith(
        "that they have to, if no kernel finds in a cache what the one before it has left there."
    )
