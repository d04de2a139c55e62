"""`kbench why` as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kbench.why.facts import RowFacts
from kbench.why.ncu_commands import count_command
from kbench.why.reasons import find_reasons


def rows_as_json(columns: Sequence[RowFacts]) -> str:
    """An object with the rows: facts, reasons, launches with their occupancy, counters, and the command that counts."""
    return json.dumps({"schema": "kbench.why/1", "rows": [_row(facts) for facts in columns]}, indent=1) + "\n"


def _row(facts: RowFacts) -> dict[str, Any]:
    known = {
        name: value
        for name, value in asdict(facts).items()
        if name not in ("case", "call", "limits", "kernels_file", "config", "file", "terms", "counters")
    }
    launches = facts.call.launches if facts.call else ()
    return {
        "case": facts.case.to_json(),
        **known,
        "reasons": [asdict(reason) for reason in find_reasons(facts)],
        "launches": [
            asdict(launch) | {"occupancy": asdict(found) if (found := facts.occupancy(launch)) else None}
            for launch in launches
        ],
        "memory": [asdict(each) for each in facts.call.memory] if facts.call else [],
        "device_limits": asdict(facts.limits) if facts.limits else None,
        "counters": [asdict(one) for one in facts.counters],
        "ncu": count_command(facts),
    }
