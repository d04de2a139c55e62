"""The decision as JSON, for programs in other languages."""

from __future__ import annotations

import json
from typing import Any

from kbench.dispatching.evidence import Evidence
from kbench.dispatching.holdout import Regret
from kbench.dispatching.python_source import number
from kbench.dispatching.tree import Branch, Decision, Threshold, Tree


def json_text(decision: Decision, evidence: Evidence, header: list[str], regrets: dict[str, Regret | None]) -> str:
    """The document.

    A node of `tree` has `yes` and `no` and asks either whether the product of `factors` is `at_most` a limit, or whether
    `argument` is `one_of` some words. Or it names the provider to `choose`, which is the general one outside of
    `within`. `general` is also the choice for words that are not in `arguments`. Infinite regrets are null.
    """
    document = {
        "format": 1,
        "operator": evidence.operator,
        "made_from": header,
        "arguments": [
            {"name": argument.name, "type": argument.type_name, "measured": _measured(evidence, argument.name)}
            for argument in evidence.arguments
        ],
        "fixed": dict(evidence.fixed),
        "providers": decision.providers,
        "general": decision.general,
        "regret": {name: None if found is None else _regret(found) for name, found in regrets.items()},
        "tree": _node(decision.tree),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _measured(evidence: Evidence, name: str) -> list[Any]:
    return sorted({point[name] for point in evidence.points})


def _regret(found: Regret) -> dict[str, Any]:
    mean, worst = (None if found.forbidden else round(regret, 6) for regret in (found.mean, found.worst.regret))
    return {"cases": found.cases, "mean": mean, "worst": worst, "forbidden": found.forbidden}


def _node(tree: Tree) -> dict[str, Any]:
    if not isinstance(tree, Branch):
        return {"choose": tree.provider, "within": {name: list(bounds) for name, bounds in tree.within.items()}}
    if isinstance(tree.test, Threshold):
        asked: dict[str, Any] = {"factors": list(tree.test.factors), "at_most": number(tree.test.limit)}
    else:
        asked = {"argument": tree.test.name, "one_of": list(tree.test.words)}
    return {**asked, "yes": _node(tree.yes), "no": _node(tree.no)}
