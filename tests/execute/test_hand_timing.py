"""The code that times calls by hand is told from code with clocks for something else, also in programs that no promise has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.execute.hand_timing import hand_timings

BY_HAND = {
    "copied": """
import torch
def do_bench(fn, warmup=25, rep=100):
    fn()
    di = torch.cuda
    start_event = [di.Event(enable_timing=True) for i in range(rep)]
    end_event = [di.Event(enable_timing=True) for i in range(rep)]
    for i in range(rep):
        start_event[i].record()
        fn()
        end_event[i].record()
    di.synchronize()
    return torch.tensor([s.elapsed_time(e) for s, e in zip(start_event, end_event)]).mean().item()
print(do_bench(lambda: torch.relu(x)))
""",
    "cpu_list": """
import torch
from timeit import default_timer as timer
def run(fn):
    samples = []
    for _ in range(10):
        a = timer()
        fn()
        b = timer()
        samples.append(b - a)
    return min(samples)
print(run(lambda: torch.ones(3)))
""",
    "timeit": """
import timeit
import torch
x = torch.ones(3)
print(timeit.timeit(lambda: torch.relu(x), number=100) / 100)
""",
}

OTHERS = {
    "evaluation": """
import time, torch
model, loader = torch.nn.Linear(3, 3), [torch.ones(3)]
t0 = time.time()
with torch.no_grad():
    for batch in loader:
        model(batch)
torch.cuda.synchronize()
print("evaluated in", time.time() - t0)
""",
    "event_steps": """
import torch
def loop(model, opt, data):
    s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for batch in data:
        s.record(); model(batch).backward(); opt.step(); e.record()
        torch.cuda.synchronize()
        print(s.elapsed_time(e))
loop(None, None, [])
""",
}


def places(folder: Path, *programs: str) -> list[tuple[str, int, str]]:
    files = [folder / f"{number}.py" for number in range(len(programs))]
    for file, program in zip(files, programs, strict=True):
        file.write_text(program.lstrip())
    return [(file.name, line, means) for file, line, means in hand_timings(files)]


@pytest.mark.parametrize("name", BY_HAND)
def test_a_program_that_times_by_hand_is_seen_at_the_line(tmp_path: Path, name: str) -> None:
    [(_, line, means)] = places(tmp_path, BY_HAND[name])
    last_word = means.split("(")[-1].strip(")").rpartition(".")[2]
    text = BY_HAND[name].lstrip().splitlines()[line - 1]
    assert {"default_timer": "timer"}.get(last_word, last_word) in text


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_with_clocks_for_something_else_is_not(tmp_path: Path, name: str) -> None:
    assert places(tmp_path, OTHERS[name]) == []
