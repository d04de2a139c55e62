"""`kbench why --import` on a run and a report of Nsight Compute that were recorded on an NVIDIA H200.

The kernels have a fault that was put there on purpose: see tests/measure/test_planted_faults_on_a_device.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import Kbench

RESULTS = Path(__file__).with_name("h200") / "double.csv"
REPORT = Path(__file__).parents[1] / "counters" / "h200.ncu.csv"


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("straight", "2. It reaches 85% of the speed of light, and 100% of the speed of a copy of the same bytes"),
        ("uncoalesced", "1. Threads of kernel uncoalesced use 12% of the bytes that their stores move"),
        (
            "spilled",
            "1. Kernel spilled reads and writes 4827.0 MB of local memory, beside the 134.2 MB of the operator.",
        ),
        ("crowded", "1. While kernel crowded runs, a multiprocessor holds 5% of the warps that it could hold"),
        ("in-twenty", "1. A call launches 20 kernels."),
        ("slowly-launched", "1. The host takes 2185 us to launch a call, and the device 38.00 us to run it"),
    ],
)
def test_the_page_names_what_was_planted(kbench: Kbench, provider: str, said: str) -> None:
    """Python launches `straight` slowly, too: its page begins with the host."""
    ended = kbench("why", RESULTS, "--row", f"provider={provider}", "--import", REPORT)
    page = " ".join(ended.stdout.split())
    assert ended.returncode == 0 and said in page, ended.stderr + page
    assert f"{provider}: what the hardware counted in a call" in page


def test_kernels_of_one_template_are_told_apart_by_their_symbols(kbench: Kbench) -> None:
    page = " ".join(kbench("why", RESULTS, "--row", "provider=in-twenty", "--import", REPORT).stdout.split())
    _, page = page.split("what the hardware counted in a call")
    assert "(int, at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul>) (19 times): 62" in page
    assert "MulFunctor<float> >, std::array<char*, 2ul>): 32.45 us while counting" in page


def test_a_report_of_other_kernels_is_refused(kbench: Kbench, tmp_path: Path) -> None:
    header, units, straight, *_ = REPORT.read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join([header, units, straight]))
    ended = kbench("why", RESULTS, "--row", "provider=crowded", "--import", "one.csv")
    assert ended.returncode == 2 and "a call launches crowded, and the report has straight" in ended.stderr
