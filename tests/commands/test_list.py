"""`kbench list` with an operator that it does not know."""

from __future__ import annotations

from pathlib import Path

from common import Kbench


def test_a_plugin_that_failed_is_named_before_the_operator_that_it_may_have_declared(
    kbench: Kbench, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import kbench\nraise ValueError('no such thing')\n")
    done = kbench("list", "mine", "--plugin", broken)
    assert done.returncode == 2 and not done.stdout
    [plugin, operator] = done.stderr.splitlines()
    assert plugin == f"error: {broken}:2: ValueError: no such thing (plug-in {broken})"
    assert operator.startswith('error: kbench list: unknown operator "mine"; ')
