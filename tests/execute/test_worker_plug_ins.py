"""A plug-in that takes the worker down when it is imported or asked is left out, and the row or the error says so."""

from __future__ import annotations

import os

import pytest
from stand_in import StandIn

from kbench.errors import WorkerLost
from kbench.execute.worker import worker_process
from kbench.execute.worker.starting import PluginFiles, start
from kbench.execute.worker.worker_process import NONSENSE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the stand-ins use POSIX")


PLUGIN_DEEDS = {
    "exits": ("os._exit(1)", "the process exited with code 1"),
    "segfaults": ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
    "hangs": ("time.sleep(60)", "took longer than 0.5 s"),
    "closes the pipe": ("os.closerange(0, 256); time.sleep(60)", "the process closed the pipe to kbench"),
    "prints into the pipe": ("raw('hello\\n'); time.sleep(60)", NONSENSE),
}


@pytest.mark.parametrize("deed", PLUGIN_DEEDS)
@pytest.mark.parametrize("provider", ["", "esc"])
def test_a_plugin_that_takes_the_worker_down_is_left_out(
    deed: str, provider: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    does, reason = PLUGIN_DEEDS[deed]
    monkeypatch.setattr(worker_process, "PLUGIN_LIMIT_S", 0.5 if deed == "hangs" else 20)
    stand_in(start=f"if loading('theirs (theirs)', {provider!r}): {does}")
    plugins = PluginFiles(())
    with start(plugins) as started:
        (failure,) = started.catalog.plugin_errors
        assert (failure.plugin, failure.where) == ("theirs (theirs)", provider)
        assert reason in failure.message
        assert ("in its availability check" if provider else "while the plug-in was imported") in failure.message
    with start(plugins) as again:  # the next worker does not try it again
        assert len(again.catalog.plugin_errors) == 1


def test_plugins_that_take_down_every_worker_end_it(stand_in: StandIn) -> None:
    stand_in(start="say('PluginCall', plugin='theirs', operator='', provider=''); os._exit(1)")
    with pytest.raises(WorkerLost, match="exited with code 1 while the plug-in was imported"):
        start(PluginFiles(()))


def test_a_plugin_that_the_user_names_ends_it(stand_in: StandIn) -> None:
    stand_in(start="say('PluginCall', plugin='mine.py', operator='', provider=''); os._exit(1)")
    with pytest.raises(
        WorkerLost, match=r"plug-in mine\.py: the process exited with code 1 while the plug-in was imported"
    ):
        start(PluginFiles(("mine.py",)))
