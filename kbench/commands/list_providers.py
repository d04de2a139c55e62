"""`kbench list`: operators, providers and built-in configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbench.commands.options import Plugins
from kbench.config import builtin
from kbench.errors import SourceLocation, UsageError
from kbench.text import terminal
from kbench.text.suggest import unknown
from kbench.text.table import Table

if TYPE_CHECKING:
    from kbench.protocol import Catalog, OperatorInfo, ProviderInfo
    from kbench.results.case import Value


def list_providers(
    operator: Annotated[str | None, typer.Argument(metavar="OPERATOR", help="List only this operator.")] = None,
    plugin: Plugins = None,
) -> None:
    """List operators, providers and built-in configs.

    The list shows what a config can sweep: the scalars, choices and modes of each operator, and the parameters of each
    provider. Each is shown with its default. The list also shows whether a provider can run on this machine.
    """
    catalog = read_catalog(plugin or ())
    operators = catalog.operators
    if operator is not None and operator not in operators:
        advice = "" if plugin else " (an operator of your own needs --plugin)"
        raise UsageError(f"kbench list: {unknown('operator', operator, list(operators))}{advice}")
    listed = {name: described for name, described in operators.items() if operator in (None, name)}
    rows = [
        [name, provider, _can_run(info), _params(info.parameters)]
        for name, described in listed.items()
        for provider, info in described.providers.items()
    ]
    print(f"{catalog.device.name} ({catalog.device.type})")
    operators_table = _operator_table(listed)
    terminal.print_table(operators_table.header, operators_table.rows)
    print()
    shapes = []  # of language models
    for name, described in listed.items():
        for shape in described.model_axes:
            shapes.append([name, ", ".join(f"{axis} = {size}" for axis, size in shape.items())])
    if shapes:
        terminal.print_table(("operator", "model axes"), shapes)
        print()
    terminal.print_table(("operator", "provider", "can run", "parameters"), rows)
    configs = [[name, about] for name, measured, about in builtin.described() if operator in (None, measured)]
    if configs:
        print()
        terminal.print_table(("config", "built in: kbench run CONFIG"), configs)


def read_catalog(plugins: Sequence[str]) -> Catalog:
    """The catalog of this machine, from a worker that has loaded these plug-ins too. Raises UsageError and ConfigError."""
    from kbench.config.load import check_plugins, plugin_fault
    from kbench.execute.supervisor import WorkerSupervisor
    from kbench.protocol import CatalogRequest

    if faults := [f"--plugin {plugin}: {why}" for plugin in plugins if (why := plugin_fault(Path(plugin)))]:
        raise UsageError("\n".join(faults))
    places = {str(Path(plugin).resolve()): SourceLocation(f"--plugin {plugin}") for plugin in plugins}
    with WorkerSupervisor(CatalogRequest(tuple(places))) as supervisor:
        catalog = supervisor.start()
    check_plugins(catalog, places)
    for failure in catalog.plugin_errors:
        terminal.warn(str(failure))
    return catalog


def _operator_table(operators: Mapping[str, OperatorInfo]) -> Table:
    """A line for each operator, without columns that are empty for all of them."""
    columns = {
        "operator": list(operators),
        "axes": [" ".join(info.axes) for info in operators.values()],
        "scalars": [_params(info.scalars) for info in operators.values()],
        "choices": [
            " ".join(f"{name}={'|'.join(words)}" for name, words in info.choices.items() if name != "mode")
            for info in operators.values()
        ],
        "modes": [" ".join(info.choices.get("mode", ())) for info in operators.values()],
        "dtypes": [" ".join(info.dtypes) for info in operators.values()],
    }
    return Table.of(columns.items()).without_empty(list(columns))


def _can_run(provider: ProviderInfo) -> str:
    if provider.unavailable:
        return f"no: {provider.unavailable}"
    return "checked only: Triton interpreter" if provider.interpreted else "yes"


def _params(parameters: Mapping[str, Value]) -> str:
    from kbench.results.case import format_params

    return format_params({k: "auto" if v is None else v for k, v in parameters.items()}).replace(",", " ")
