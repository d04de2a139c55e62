"""A trial of an operator before anything is timed, so that its faults are reported once, and not as faults of providers."""

from __future__ import annotations

from dataclasses import replace

from kbench.contract.operator import Operator
from kbench.measure.correctness.check import changed_input
from kbench.measure.correctness.definition import Definition, OperatorFault, exactly
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device, out_of_memory
from kbench.results.case import FORWARD, Case

SMALL_BYTES = 2**26
"""Edge inputs, repeated calls and some of the rows are tried if a call touches at most this many bytes."""

SMALL_AXIS = 64
"""A trial reduces each axis to at most this size: the reference of a large case may take minutes on a host."""


def attempt(operator: Operator, case: Case, device: Device, seed: int) -> OperatorFault | None:
    """Call all functions of an operator for a case with small axes, in its mode and in mode `forward`. Returns the fault.

    The case itself decides if the operator does not accept the small axes. None without a fault, and if memory runs out.
    """
    sizes = {name: min(int(getattr(case, name)), SMALL_AXIS) for name in operator.axes}
    small = replace(case, axes={**case.axes, **sizes})
    if small == case or _attempt(operator, small, device, seed):
        return _attempt(operator, case, device, seed)
    return None


def _attempt(operator: Operator, case: Case, device: Device, seed: int) -> OperatorFault | None:
    forward = replace(case, axes={**case.axes, "mode": FORWARD}) if "mode" in case.axes else case
    try:
        _try_once(Definition(operator, forward), device, seed)
        if case.mode != FORWARD:
            _try_once(Definition(operator, case), device, seed)
    except OperatorFault as fault:
        return fault
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    return None


def _try_once(definition: Definition, device: Device, seed: int) -> None:
    """Call the functions of an operator in one mode. Raises OperatorFault."""
    operator = definition.operator
    drawn = Inputs(definition, device, seed)
    inputs = drawn.draw("timed")
    small = definition.work(inputs).call_bytes <= SMALL_BYTES
    exact = [x.clone() for x in exactly(inputs)]
    references = definition.expected(exact)
    if fault := changed_input(definition.input_names, exact, exactly(inputs)):
        raise definition.fault(f"reference {fault}", "it must work on a copy")
    definition.check_shapes([tuple(x.shape) for x in references])
    expected = Expected(definition, inputs)
    definition.check_shapes(expected.shapes)
    if operator.check is None and small:
        expected.check_again(references)
        expected.check_rows()
    if operator.check is not None and definition.case.mode == FORWARD:
        rounded = [x.to(output.dtype) for x, output in zip(references, definition.outputs, strict=True)]
        definition.verdict(inputs, rounded, references)
    for name in operator.edges if small else ():
        definition.expected(exactly(definition.edge(name, inputs, drawn)), f" (on the edge inputs {name!r})")
