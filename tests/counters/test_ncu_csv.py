"""Reading what `ncu --csv` prints (see ncu_tables.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from counters.ncu_tables import GOOD, RECORDED, STALLED, details_page, raw_page

from kbench.counters.kernel_counters import KernelCounters, function_name, merged, of_call
from kbench.counters.ncu_csv import NotCounters, read_ncu_csv
from kbench.launches.launched_call import Kernel, KernelLaunch, LaunchedCall

ROWS = "_Z4rowsPf"


def launch(symbol: str, name: str, times: int = 1) -> KernelLaunch:
    return KernelLaunch(Kernel(name, symbol, 32, 0, 0, "aaaa", "machine code"), (8, 1, 1), (128, 1, 1), 0, 16, times)


@pytest.mark.parametrize("page", [raw_page, details_page])
def test_both_forms_have_the_same_numbers(page: Callable[..., str]) -> None:
    [one] = read_ncu_csv(page((ROWS, GOOD)))
    assert one.name == ROWS and one.time_ns == 31_936 and one.dram_read_bytes == 67114752
    assert one.dram_bytes == 67114752 + 58288128 and one.local_bytes == 0
    assert (one.l2_hit_percent, one.warps_percent, one.load_used_percent) == (50.16, 75.69, 100)
    assert one.limits == {"barriers": 32, "blocks": 32, "registers": 16, "shared_mem": 32, "warps": 8}


def test_stalls_are_shares_of_the_time_of_a_warp() -> None:
    [one] = read_ncu_csv(raw_page((ROWS, GOOD | {STALLED.format("long_scoreboard_not_issued"): "9.0"})))
    assert sum(one.stalls.values()) == pytest.approx(1)
    assert one.stalls["long_scoreboard"] == pytest.approx(0.924, abs=0.001)
    assert "long_scoreboard_not_issued" not in one.stalls, "it counts other cycles"


def test_a_recorded_table_is_read_as_it_is() -> None:
    text = Path(__file__).with_name("h200.ncu.csv").read_text()
    found = read_ncu_csv(text)
    assert [function_name(one.name) for one in found[:4]] == ["straight", "uncoalesced", "spilled", "crowded"]
    assert {one.name for one in found} == set(RECORDED) and len(found) == 8
    straight, uncoalesced, spilled, crowded, *others = found
    assert straight.wasted_bytes == 0 and uncoalesced.wasted_bytes == pytest.approx(929e6, rel=0.01)
    assert spilled.local_bytes == pytest.approx(4827e6, rel=0.01) and spilled.cached_bytes == 0
    assert crowded.warps_percent == 4.93 and crowded.limits["shared_mem"] == min(crowded.limits.values()) == 4
    assert straight.cached_bytes == 64 * 2**20 - 58288128 and uncoalesced.cached_bytes == 0
    assert [one.launches for one in merged(others)] == [2, 2]


def test_sampled_stalls_are_read_where_there_are_no_others() -> None:
    sampled = {"gpu__time_duration.sum": "5", "smsp__pcsamp_warps_issue_stalled_barrier": "30"}
    sampled |= {"smsp__pcsamp_warps_issue_stalled_wait": "10", "smsp__pcsamp_warps_issue_stalled_wait_not_issued": "7"}
    [one] = read_ncu_csv(raw_page((ROWS, sampled)))
    assert one.stalls == {"barrier": 0.75, "wait": 0.25}


def test_units_that_people_read_become_base_units() -> None:
    values = {"dram__bytes_read.sum": "1.5", "dram__bytes_write.sum": "2", "gpu__time_duration.sum": "3.25"}
    for time, factor in (("us", 1e3), ("usecond", 1e3), ("ms", 1e6), ("msecond", 1e6), ("second", 1e9)):
        units = {"dram__bytes_read.sum": "Gbyte", "dram__bytes_write.sum": "Kbyte", "gpu__time_duration.sum": time}
        [one] = read_ncu_csv(raw_page((ROWS, values), units=units))
        assert (one.dram_bytes, one.time_ns) == (1.5e9 + 2e3, 3.25 * factor)


def test_newer_devices_name_the_bytes_differently() -> None:
    [one] = read_ncu_csv(raw_page((ROWS, {"dram__bytes_op_read.sum": "7", "dram__bytes_op_write.sum": "8"})))
    assert one.dram_bytes == 15


def test_what_a_report_lacks_is_not_known() -> None:
    [one] = read_ncu_csv(raw_page((ROWS, {"gpu__time_duration.sum": "5", "lts__t_sector_hit_rate.pct": "n/a"})))
    assert one.l2_hit_percent is None and one.dram_bytes is None and one.local_bytes is None and one.stalls == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'no column "Kernel Name"'),
        ("==ERROR== nothing\n", 'no column "Kernel Name"'),
        ("a,b\n1,2\n", 'no column "Kernel Name"'),
        (raw_page(), "no launch of a kernel"),
        (raw_page((ROWS, {"launch__waves_per_multiprocessor": "1"})), "no metrics by which kbench could judge"),
        ('"ID","Kernel Name"\n"0"\n', "a line has 1 cells, and the header has 2"),
        ('"ID","Kernel Name","x__y"\n"0","k","\0', "no CSV"),
        ('"Kernel Name","Metric Name"\n', "a column is missing"),
    ],
)
def test_other_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(NotCounters, match=said):
        read_ncu_csv(text)


def test_hostile_numbers_and_names_do_no_harm() -> None:
    values = {"gpu__time_duration.sum": "1e999", "dram__bytes_read.sum": "-5", "dram__bytes_write.sum": "4"}
    [one] = read_ncu_csv(raw_page(("k\x1b[31m", values)))
    assert one.time_ns is None and one.dram_read_bytes is None and "\x1b" not in one.name


def test_launches_of_a_kernel_are_added_and_their_shares_averaged_over_time() -> None:
    first = KernelCounters("k", 1, 100.0, 10.0, 0.0, l2_hit_percent=0.0, stalls={"wait": 1.0})
    second = KernelCounters("k", 1, 300.0, 30.0, None, l2_hit_percent=100.0, stalls={"barrier": 1.0})
    other = KernelCounters("j", time_ns=5.0)
    both, alone = merged([first, other, second])
    assert (both.launches, both.time_ns, both.dram_read_bytes, both.l2_hit_percent) == (2, 400, 40, 75)
    assert both.dram_write_bytes is None, "a sum of what is not known"
    assert both.stalls == {"wait": 0.25, "barrier": 0.75} and alone is other


def test_a_report_of_several_calls_becomes_one_of_one_call() -> None:
    call = LaunchedCall((launch(ROWS, "rows(float*)", 2), launch("other", "other")))
    [one] = of_call([KernelCounters(ROWS, 6, 600.0, 60.0), KernelCounters("copy", 1)], call)
    assert (one.name, one.launches, one.time_ns, one.dram_read_bytes) == ("rows(float*)", 2, 200, 20)


def test_kernels_are_found_by_the_names_that_people_read() -> None:
    call = LaunchedCall((launch("_Z1", "void at::(anonymous namespace)::add<float, 4>(float*)"),))
    for name in ("add", "void at::<unnamed>::add<float, (int)4>(T1 *)", "at::add"):
        assert [one.launches for one in of_call([KernelCounters(name)], call)] == [1], name
    assert not of_call([KernelCounters("void at::mul<float>(float)")], call)


def test_instances_of_a_template_that_cannot_be_told_apart_count_as_they_are() -> None:
    call = LaunchedCall((launch("_Z1", "void f<1>()", 3), launch("_Z2", "void f<2>()", 3)))
    [one] = of_call([KernelCounters("f", 4, 40.0)], call)
    assert (one.launches, one.time_ns) == (4, 40.0)


def test_the_name_of_a_function() -> None:
    assert function_name("triton_poi_fused_add_0") == "triton_poi_fused_add_0"
    assert function_name("void a::b<c::d<int> >::e(int)") == "b", "a member of a template: the name of the template"
    assert function_name("") == ""
