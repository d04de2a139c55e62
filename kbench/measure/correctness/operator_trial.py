"""A trial of an operator before anything is timed, so that its faults are reported once, and not as faults of providers."""

from __future__ import annotations

from kbench.contract.operator import Operator
from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device, out_of_memory
from kbench.results.case import Case


def attempt(operator: Operator, case: Case, device: Device, seed: int) -> OperatorFault | None:
    """Call the functions of an operator for a case: bytes, tolerance, inputs, reference and scale. Returns the fault.

    None if there is no fault, and if memory runs out: each case reports that itself.
    """
    definition = Definition(operator, case)
    try:
        definition.call_bytes()
        definition.flops()
        expected = Expected(definition, Inputs(definition, device, seed).draw("timed"))
        dtypes = {part.position: part.reference.dtype for part in expected.parts()}
        return definition.shape_fault(expected.shapes, [dtypes[i] for i in range(len(dtypes))])
    except OperatorFault as fault:
        return fault
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    return None
