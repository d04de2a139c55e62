"""`kbench schema`."""

from __future__ import annotations

import json

from kbench.errors import ResultsError
from kbench.text.suggest import unknown


def schema(what: str) -> int:
    """Print the JSON Schema of config files or of comparisons. Raises ResultsError for anything else."""
    if what == "config":
        from kbench.config import schema as config_schema

        found = config_schema.schema()
    elif what == "compare":
        from kbench.comparison.formats import json_report

        found = json_report.schema()
    else:
        raise ResultsError(f"kbench schema: {unknown('schema', what, ('config', 'compare'))}")
    print(json.dumps(found, indent=2))
    return 0
