"""Messages arrive as they were sent, and nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import pytest
from making import machine_info

from kbench.contract.tensor import Layout
from kbench.protocol import (
    CallRequest,
    Catalog,
    CatalogRequest,
    CheckRequest,
    ClockReading,
    ClockRequest,
    Configuration,
    Delivered,
    DeviceFailed,
    DeviceInfo,
    Fault,
    Measure,
    OperatorInfo,
    PassedTensor,
    ProtocolError,
    ProviderInfo,
    RequestDone,
    Rows,
    StepBegun,
    StepEnded,
    Task,
    TrialRequest,
    decode,
    decode_request,
    encode,
)
from kbench.results.row import Case, Row, Status

CASE = Case("gelu", {"M": 8, "N": 64, "approximate": "tanh"}, "float32")

SETTINGS = Measure(
    timer="do_bench", cache="cold", warmup_ms=1.5, rep_ms=2, rounds=3, threads=2, precision=0.005, max_ms=400
)

CONFIGURATIONS = (
    Configuration("triton", {"block": 64, "share": 0.5, "fast": True, "kind": "row", "warps": None}),
    Configuration("cuda", {}),
)

CATALOG = Catalog(
    DeviceInfo("cuda", "A card", 1, "GPU-1"),
    (DeviceInfo("cuda", "A card", 1, "GPU-1", {"CUDA_VISIBLE_DEVICES": "1"}),),
    {
        "gelu": OperatorInfo(
            ("M", "N"),
            {"approximate": ("tanh", "none")},
            ("float32",),
            {"forward": ("inf",), "full": ()},
            {"triton": ProviderInfo({"block": 64}, "no triton", "mine.py", "1a", "mine.py:3", True)},
            {"eps": 1e-6, "causal": False, "heads": 4},
            {"x": Layout(("M", "2*N")), "labels": Layout(("M",), "int64")},
            {"y": Layout(("M", "N"))},
            ("x",),
            True,
            ({"M": "tokens", "N": "intermediate"}, {"M": "tokens*active_experts", "N": "expert_intermediate"}),
        )
    },
    (Fault("mine.py:3", "NameError", "mine.py"),),
    machine_info(limits={"power_limit_w": 700.0, "max_sm_mhz": 1980, "bus_bits": None}, major=9, gcnArchName=None),
)

ANSWERS = [
    CATALOG,
    StepBegun(1, "triton[block=64]", "build", 20.0, "inf"),
    StepEnded(),
    Rows(
        (
            Row(
                CASE,
                "triton",
                status=Status.WRONG,
                reason="off by one",
                max_ulp=3.0,
                max_rel_err=float("inf"),
                edge="inf",
            ),
        )
    ),
    Rows((Row(CASE, "triton", ms=1.0, round_ms=(1.0, 1.5), flags=("noisy",), samples=3, deterministic=True),)),
    DeviceFailed(Status.CRASHED, "an illegal address"),
    Fault("mine.py:3", "its reference fails"),
    RequestDone(),
]

TASK = Task(CASE, CONFIGURATIONS, "cuda", SETTINGS, 2, {"the type of device": "cuda"})

CALL = CallRequest(TASK, "inf", "memory", (PassedTensor("float32", (2, 3), (5, 1), 4),), sets=2, step=512)
DELIVERED = Delivered(None, "", "a thread", "", False, second=True)

REQUESTS = [
    CatalogRequest(("mine.py",), "problem", folder="folder"),
    TASK,
    TrialRequest(TASK),
    CheckRequest(TASK, (("torch", "inf"),)),
    CALL,
    DELIVERED,
    ClockRequest(TASK, 0.5, True),
]


def kind(message: object) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", [*ANSWERS, CALL, DELIVERED, ClockReading(-0.5, 1.0)], ids=kind)
def test_an_answer_arrives_as_it_was_sent(message: Any) -> None:
    line = encode(message, "secret")
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode(line, "secret") == message
    with pytest.raises(ProtocolError, match="without the secret"):
        decode(line, "another")


@pytest.mark.parametrize("message", REQUESTS, ids=kind)
def test_a_request_arrives_as_it_was_sent(message: Any) -> None:
    assert decode_request(encode(message, "secret")) == ("secret", message)
    assert [type(value) for value in CONFIGURATIONS[0].params.values()] == [int, float, bool, str, type(None)]


@pytest.mark.parametrize("line", [b"", b"null", b"secret", b"secret Rows", b"secret Rows {", b"secret Nothing {}"])
def test_nothing_else_is_taken_for_a_message(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line, "secret")


def test_a_request_is_no_answer() -> None:
    with pytest.raises(ProtocolError, match="no known kind"):
        decode(encode(TASK, "secret"), "secret")
    with pytest.raises(ProtocolError, match="no known kind"):
        decode_request(encode(RequestDone(), "secret"))
