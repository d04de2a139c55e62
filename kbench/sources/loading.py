"""In the worker: loads a source, which registers its operators, and returns what it asks to measure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.contract.origin import registering_for
from kbench.contract.provider import missing
from kbench.protocol import PluginError, Source, SourceSweep
from kbench.sources import SourceFault, SourceKind, folder_format, source_of
from kbench.text.exception_text import describe_exception, location

if TYPE_CHECKING:
    from kbench.sources.scripts.recording import Recorder, ScriptSwitches, TimePlainly


def load_source(
    source: Source, time_plainly: TimePlainly, switches: ScriptSwitches
) -> tuple[Sequence[SourceSweep], Sequence[PluginError]]:
    """Load a source. Returns its sweeps, or the reason why there are none."""
    path = Path(source.path)
    try:
        with registering_for(source.path):
            if source_of(path) is SourceKind.SCRIPT:
                return load_plots(path, source.arguments, time_plainly, switches), ()
            return _load_folder(path), ()
    except SourceFault as fault:
        return (), [PluginError(source.path, fault.where, str(fault))]
    except BaseException as error:  # noqa: BLE001  other people's code may raise anything
        what = f"{type(error).__name__}: {error}"
        return (), [PluginError(source.path, location(error, source.path), what)]


def _load_folder(path: Path) -> Sequence[SourceSweep]:
    module = folder_format(path)
    if module is None:
        raise SourceFault(str(path), "kbench does not know the format of this benchmark problem")
    sweeps: Sequence[SourceSweep] = import_module(module).load(path)
    return sweeps


def load_plots(
    path: Path, arguments: Sequence[str], time_plainly: TimePlainly, switches: ScriptSwitches
) -> Sequence[SourceSweep]:
    """Run a script, and register the plots that it has asked for before it ended, in whatever way it ended. Returns nothing for
    a script that calls do_bench, but runs no plot. The switches are as before afterwards."""
    if find_spec("triton") is None:
        raise SourceFault(str(path), missing("triton"))
    from kbench.sources.scripts.recording import NoPlotSoFar, Recorder
    from kbench.sources.scripts.running import ScriptEnded, run_as_main
    from kbench.sources.scripts.script_operator import register
    from kbench.sources.scripts.shielded_files import shielded
    from kbench.sources.scripts.stand_ins import answering

    recorder = Recorder(time_plainly, switches)
    try:
        with answering(recorder), shielded(Path.cwd(), path.parent):
            run_as_main(path, arguments)
    except NoPlotSoFar:
        return ()
    except Exception as error:
        if recorder.loose and not recorder.plots:
            return ()
        if not recorder.plots:
            if recorder.empty():  # pandas does not like such plots either, and says so in other words
                raise SourceFault(str(path), _nothing_to_measure(recorder)) from None
            if isinstance(error, ScriptEnded):
                raise SourceFault(str(path), str(error)) from None
            raise
        what = str(error) if isinstance(error, ScriptEnded) else f"failed: {describe_exception(error)}"
        print(f"kbench: {path.name} {what}; kbench measures the plots that it had run until then", file=sys.stderr)
    finally:
        switches.write(recorder.before)
    if not recorder.plots and not recorder.loose:
        raise SourceFault(str(path), _nothing_to_measure(recorder))
    for fault in recorder.empty():
        print(f"kbench: {path.name}: {fault}, so kbench does not measure this plot", file=sys.stderr)
    for fault in recorder.repeated():
        print(f"kbench: {path.name}: {fault}; kbench measures it once", file=sys.stderr)
    return [register(plot, path) for plot in recorder.plots]


def _nothing_to_measure(recorder: Recorder) -> str:
    """Why a script that ran to its end has no plot, and what to do."""
    empty = recorder.empty()
    if empty:
        return f"{empty[0]}, so there is nothing to measure; give it at least one value"
    if recorder.declared:
        return (
            "declares a benchmark with triton.testing.perf_report, but never calls its run(); call it in the script, or give "
            "the script the arguments with which it does so, after --"
        )
    return (
        "calls neither triton.testing.perf_report nor triton.testing.do_bench, so there is nothing to measure; if it needs "
        "arguments, give them after --"
    )
