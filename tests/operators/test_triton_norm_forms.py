"""Forward kernels of the norms in Triton that the dispatch chooses for large matrices only: on small matrices in Triton's
interpreter, and on a device for shapes of every kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_triton_norms import judged

from kbench.contract.registry import operator
from kbench.kernels.norms import launch
from kbench.kernels.norms.dispatch.launches import Processors
from kbench.kernels.norms.dispatch.teams import in_slices, teams
from kbench.kernels.norms.dispatch.twice import read_twice_unrolled
from kbench.kernels.norms.dispatch.wide_weights import held_beside_wide_weights as held

pytest.importorskip("triton")
pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # numpy, where a kernel works on the padding of a block

HOST = Processors(8, 32, 0, False, True, True)

FORMS = {
    "twice, unrolled": lambda M, N, size: read_twice_unrolled(M, N, size, 1, ("", "", ""), 0),
    "a row": lambda M, N, size: held(M, N, rows=1, pieces=1, warps=1, registers=0, access=16, packed=False),
    "two rows, two blocks": lambda M, N, size: held(M, N, rows=2, pieces=2, warps=1, registers=0, packed=False),
    "teams": lambda M, N, size: teams(M, N, size, 64, 1, 1, 3, HOST),
    "one team": lambda M, N, size: teams(M, N, size, 32, 1, 1, 3, HOST),
    "slices": lambda M, N, size: in_slices(M, N, 32, 2, 0, "", HOST),
}
"""For M rows of N elements of `size` bytes, on a host that has 8 multiprocessors: each team or program has several rows."""


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the norms take a plan that a function makes for M, N and the bytes of an element."""

    def replace(form: Any) -> None:
        monkeypatch.setattr(launch, "forward_plan", lambda M, N, size, *rest: form(M, N, size))

    return replace


@pytest.mark.slow
@pytest.mark.parametrize("N", [200, 256])
@pytest.mark.parametrize("name, dtype, weights", [
    ("layernorm", "float32", "same"), ("layernorm", "bfloat16", "float32"), ("rmsnorm", "float32", "same"),
    ("add_rmsnorm", "bfloat16", "same"),
])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_right(form: str, name: str, dtype: str, weights: str, N: int, takes: Any) -> None:
    """Of rows that fill their blocks and of rows that do not; also the statistics that they save for the backward pass."""
    takes(FORMS[form])
    assert judged(name, 11, N, "full", dtype, weights) is None


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_large_mean_costs_no_digits(form: str, takes: Any) -> None:
    takes(FORMS[form])
    assert judged("layernorm", 5, 200, "forward", mean=5000.0) is None


@pytest.mark.parametrize("resident", [1, 2])
def test_no_team_has_more_programs_than_the_device_holds(resident: int) -> None:
    """Its programs would wait forever."""
    assert teams(4, 8 * 32 * resident, 4, 32, 1, resident, 1, HOST) is not None
    assert teams(4, 8 * 32 * resident + 1, 4, 32, 1, resident, 1, HOST) is None


@pytest.mark.gpu
@pytest.mark.timeout(60)
@pytest.mark.parametrize("M, N", [(131, 131072), (1, 262144), (5, 150000), (140, 20000)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["rmsnorm", "add_rmsnorm", "layernorm"])
def test_teams_are_right_on_a_device(name: str, dtype: str, M: int, N: int, takes: Any) -> None:
    """Also where the dispatch chooses other launches. All but three rows of the second launch have the marks of the first."""
    here = launch._processors(torch.device("cuda"))
    takes(lambda M, N, size: teams(M, N, size, 8192, 16, 1, 3, here))
    assert [judged(name, rows, N, "forward", dtype) for rows in (M, M + 3, M)] == [None] * 3


@pytest.mark.gpu
@pytest.mark.timeout(60)
@pytest.mark.parametrize("M, N", [(1024, 65536), (512, 131072), (300, 200704), (257, 262144)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["rmsnorm", "add_rmsnorm", "layernorm"])
def test_large_matrices_of_long_rows_are_right_on_a_device(name: str, dtype: str, M: int, N: int) -> None:
    """As the dispatch launches them."""
    assert judged(name, M, N, "forward", dtype) is None


@pytest.mark.gpu
@pytest.mark.timeout(60)
def test_teams_run_from_a_graph() -> None:
    x, weight = torch.randn(256, 262144, device="cuda"), torch.randn(262144, device="cuda")
    call = operator("rmsnorm").providers["triton"].bind(operator("rmsnorm").case("float32", M=256, N=262144), {})
    expected = call(x, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call(x, weight)
    for _ in range(3):
        found.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, expected)


@pytest.mark.gpu
@pytest.mark.timeout(60)
def test_teams_on_two_streams_do_not_wait_forever() -> None:
    """Together, they have more programs than a device holds at once."""
    x, weight = torch.randn(300, 131072, device="cuda"), torch.randn(131072, device="cuda")
    call = operator("rmsnorm").providers["triton"].bind(operator("rmsnorm").case("float32", M=300, N=131072), {})
    expected, streams, found = call(x, weight), [torch.cuda.Stream(), torch.cuda.Stream()], []
    torch.cuda.synchronize()
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                found = [*found[-3:], call(x, weight)]
    torch.cuda.synchronize()
    assert all(torch.equal(y, expected) for y in found)


@pytest.mark.gpu
@pytest.mark.timeout(60)
@pytest.mark.parametrize("M, N", [(65537, 1024), (98305, 776), (4097, 16384), (7001, 9000)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_layernorm_beside_float32_weights_is_right_on_a_device(dtype: str, M: int, N: int) -> None:
    assert judged("layernorm", M, N, "full", dtype, "float32") is None
