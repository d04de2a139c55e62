"""What is wrong with an operator is said of the operator, with the place in its file, and of no provider."""

from __future__ import annotations

import pytest
from common import PLUGINS, Kbench, register_plugin
from in_process import measured

from kbench.contract.registry import operator
from kbench.measure.correctness.operator_trial import attempt
from kbench.measure.machine.device import Device

SWEEP = """
operator: {operator}
sweep: {{M: 4, N: {n}}}
providers: [right, also-right]
measure: {{warmup_ms: 1, rep_ms: 1, rounds: 1}}
plugins: [{plugin}]
"""

FAULTS = {
    "fill-typo": "the fill of x fails on M=4 N=8 float32: AttributeError: case of fill-typo has no axis 'MM'",
    "fill-none": "the fill of x returned NoneType on M=4 N=8 float32; it must return a tensor",
    "fill-shape": "the fill of x returned shape (8, 4) on M=4 N=8 float32; it must return shape (4, 8)",
    "fill-dtype": "the fill of x returned int64 on M=4 N=8 float32; it must return float32",
    "reference-text": "reference returned str on M=4 N=8 float32; it must return a tensor",
    "reference-dtype": "reference returned bool for y on M=4 N=8 float32; the operator declares float32",
    "reference-sparse": "reference returned a tensor of layout torch.sparse_coo for y on M=4 N=8 float32; it must",
    "reference-device": "reference returned a tensor on device meta for y on M=4 N=8 float32; it must return a tensor on",
    "reference-of-two": "reference returned 2 values on M=4 N=8 float32; it must return a tensor",
    "fill-none-in-range": "the fill of x fails on M=4 N=8 float32: ValueError: there is no whole number from 0 up to but",
    "reference-changes-x": "reference changed its input x in place on M=4 N=8 float32; it must work on a copy",
    "reference-random": "reference returned two different results for y on the same inputs on M=4 N=8 float32; if several",
    "rows-depend": "the values that reference returned for y changed when it was given only half of the rows on M=4 N=8 "
    "float32; "
    "the rows are not independent; leave out rows='M'",
    "rows-of-another-shape": "the values that reference returned for y changed when it was given only half of the rows",
    "gradient-none": "no output of the reference has a gradient on M=4 N=8 mode=backward float32; use differentiable",
    "gradient-in-place": "reference changed its input x in place on M=4 N=8 mode=forward float32",
    "edge-not-a-tuple": "edges['odd'] returned Tensor on M=4 N=8 float32; it must return a tuple of 1 tensor (x)",
    "reference-of-a-number": "reference returned a list with NoneType in the place of y on M=4 N=8 float32; it must return a ",
    "edge-dtype": "edges['odd'] returned float64 for x on M=4 N=8 float32; it must return float32",
    "edge-reference": "reference (on the edge inputs 'odd') fails on M=4 N=8 float32: ",
    "flops-negative": "flops returned -1 on M=4 N=8 float32; it must return a number that is not negative",
    "flops-raises": "flops fails on M=4 N=8 float32: AttributeError",
    "check-says-false": "check returned False on M=4 N=8 float32; it must return None, or text that says what is wrong",
    "check-says-nothing": "check returned ' ' on M=4 N=8 float32; it must return None, or text that says what is wrong",
    "check-changes-x": "check changed the input x in place on M=4 N=8 float32; it must work on a copy",
    "check-changes-it": "check changed the expected output y in place on M=4 N=8 float32; it must work on a copy",
    "scale-nan": "scale is NaN where the output is finite on M=4 N=8 float32; it must be a number everywhere",
    "scale-shape": "scale fails on M=4 N=8 float32: ValueError: the scale has shape (1, 4, 8), but the output has shape (4, 8)",
    "uneven-size": "a size of a tensor cannot be computed (N/3 is not a whole number at N=8) on M=4 N=8 float32; leave such",
    "tolerance-nan": "tolerance returned nan",
    "scale-raises": "scale fails on M=4 N=8 float32: AttributeError",
}


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    register_plugin("faulty.py")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_before_anything_is_timed(name: str) -> None:
    found = operator(name)
    fault = attempt(found, found.case(M=4, N=8, **{"mode": "backward"} if found.gradients else {}), Device(), seed=0)
    assert fault is not None
    assert FAULTS[name] in fault.what and fault.what.startswith(f"operator {name}: ")
    line = next(n for n, text in enumerate((PLUGINS / "faulty.py").read_text().splitlines(), 1) if f'"{name}"' in text)
    assert fault.where == f"{PLUGINS / 'faulty.py'}:{line}"


def test_a_fault_inside_a_gradient_has_the_place_of_that_line() -> None:
    fault = attempt(operator("gradient-raises"), operator("gradient-raises").case(M=4, N=8, mode="full"), Device(), 0)
    assert fault is not None and "the gradient of the reference fails on M=4 N=8 mode=full float32" in fault.what
    line = next(
        n for n, text in enumerate((PLUGINS / "faulty.py").read_text().splitlines(), 1) if "no gradient today" in text
    )
    assert fault.where == f"{PLUGINS / 'faulty.py'}:{line}"


def test_a_reference_may_round_to_float32_and_to_the_8_bits_that_its_output_declares() -> None:
    for name in ("reference-in-float32", "reference-quantises"):
        assert attempt(operator(name), operator(name).case(M=4, N=8), Device(), seed=0) is None


def test_a_fault_of_one_case_alone_is_still_the_operators() -> None:
    rows = measured(operator("only-wide"), M=4, N=128)
    assert [(row.provider, row.status.value) for row in rows.values()] == [("right", "error"), ("also-right", "error")]
    for row in rows.values():
        assert row.reason.startswith("operator only-wide: reference fails on M=4 N=128 float32")
        assert "faulty.py:" in row.reason and "while" not in row.reason


@pytest.mark.slow
def test_a_reference_that_ends_the_worker_is_the_operators_fault(kbench: Kbench, write_config) -> None:
    config = write_config(SWEEP.format(operator="reference-ends-the-process", n="8", plugin=PLUGINS / "faulty.py"))
    done = kbench("run", config, "--no-plot")
    assert done.returncode == 2
    assert "operator reference-ends-the-process: a trial call of its functions on " in done.stderr
    assert "failed: the process exited with code 3" in done.stderr


def test_a_trial_of_a_large_case_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sweep with one large case, the trial would otherwise compute the large reference, for minutes on a host."""
    found = operator("matmul")
    seen = []
    monkeypatch.setattr(found, "reference", lambda a, b: seen.append((*a.shape, b.shape[1])) or a @ b)
    assert attempt(found, found.case(M=100_000, N=100_000, K=100_000), Device(), seed=0) is None
    assert max(max(shape) for shape in seen) <= 64
