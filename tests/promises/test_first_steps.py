"""What a newcomer meets: `kbench init`, and a plug-in that Python cannot read."""

from __future__ import annotations

from pathlib import Path

from promises.outside import Kbench, Write


def test_init_says_what_the_operator_that_it_writes_computes(kbench: Kbench, folder: Path) -> None:
    ended = kbench("init", "rope")
    assert ended.code == 0 and (folder / "my_rope.py").is_file()
    [line] = [line for line in ended.out.splitlines() if "my_rope.py:" in line]
    assert "RMS norm" in line


def test_a_syntax_error_in_a_plug_in_is_placed_once(kbench: Kbench, write: Write) -> None:
    write("broken.py", "import kbench\n\ndef (:\n")
    ended = kbench("list", "softmax", "--plugin", "broken.py")
    [line] = [line for line in ended.err.splitlines() if "SyntaxError" in line]
    assert "broken.py:3: SyntaxError: invalid syntax" in line and "line 3" not in line
