"""An operator is tried once before anything is timed: what is wrong with it is said once, and of nobody else."""

from __future__ import annotations

from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device, out_of_memory
from kbench.registry import Operator
from kbench.results.row import Case


def attempt(operator: Operator, case: Case, device: Device, seed: int) -> OperatorFault | None:
    """Call all that the operator says of a case: bytes, tolerance, inputs, reference and scale. None where all is well, or
    where memory runs out, which every case finds out for itself."""
    definition = Definition(operator, case)
    try:
        definition.bytes()
        definition.tolerance()
        for _ in Expected(definition, Inputs(definition, device, seed).draw("timed")).parts():
            pass
    except OperatorFault as fault:
        return fault
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    return None
