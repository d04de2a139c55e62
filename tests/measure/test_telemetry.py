"""Telemetry: whoever answers fills the columns, and nobody at all is fine."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from kbench.measure.machine.sources import find_telemetry
from kbench.measure.machine.telemetry import Nothing, telemetry_columns


class AmdSmiException(Exception):
    pass


def amdsmi(**answers: object) -> SimpleNamespace:
    """A stand-in for AMD's library, which needs AMD's hardware."""

    def ask(name: str):
        def question(*_: object) -> object:
            answer = answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return question

    names = [
        "amdsmi_init",
        "amdsmi_get_processor_handles",
        "amdsmi_get_clock_info",
        "amdsmi_get_power_info",
        "amdsmi_get_temp_metric",
        "amdsmi_get_gpu_metrics_info",
        "amdsmi_get_gpu_vram_info",
    ]
    return SimpleNamespace(
        AmdSmiException=AmdSmiException,
        AmdSmiClkType=SimpleNamespace(GFX=1),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=1),
        **{name: ask(name) for name in names},
    )


ANSWERS = {
    "amdsmi_init": None,
    "amdsmi_get_processor_handles": ["first"],
    "amdsmi_get_clock_info": {"clk": 2100, "max_clk": 2100},
    "amdsmi_get_power_info": {"current_socket_power": "N/A", "average_socket_power": 512},
    "amdsmi_get_temp_metric": 61,
    "amdsmi_get_gpu_metrics_info": {"throttle_status": 4},
    "amdsmi_get_gpu_vram_info": {"vram_max_bandwidth": 5325},
}


def device(kind: str, index: int = 0) -> SimpleNamespace:
    return SimpleNamespace(type=kind, index=None if kind == "cpu" else index, torch_device=torch.device(kind))


def test_a_host_has_no_telemetry_and_no_columns() -> None:
    reader = find_telemetry(device("cpu"))  # type: ignore[arg-type]
    assert isinstance(reader, Nothing)
    assert telemetry_columns([reader.read()]) == {}
    assert reader.peak_gbps() is None and reader.others() is None


def test_amdsmi_answers_where_nvml_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi(**ANSWERS))
    reader = find_telemetry(device("cuda"))  # type: ignore[arg-type]
    assert reader.source == "amdsmi"
    assert reader.read() == {"sm_mhz": 2100, "power_w": 512, "temp_c": 61, "throttle": ("throttled",)}
    assert reader.peak_gbps() == 5325


def test_amdsmi_is_asked_for_the_card_that_this_process_may_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with HIP_VISIBLE_DEVICES=2: to torch the third card of the host is number 0."""
    cards = amdsmi(**ANSWERS | {"amdsmi_get_processor_handles": ["first", "second", "third"]})
    cards.amdsmi_get_temp_metric = lambda card, *_: {"first": 30, "second": 40, "third": 50}[card]
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", cards)
    assert find_telemetry(device("cuda", 2)).read()["temp_c"] == 50  # type: ignore[arg-type]


def test_a_question_that_amdsmi_refuses_leaves_its_column_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    refuses = ANSWERS | {"amdsmi_get_temp_metric": AmdSmiException("not supported")}
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi(**refuses))
    reading = find_telemetry(device("cuda")).read()  # type: ignore[arg-type]
    assert reading["temp_c"] is None and reading["sm_mhz"] == 2100


@pytest.mark.parametrize("handles", [[], AmdSmiException("no driver")])
def test_nothing_answers(monkeypatch: pytest.MonkeyPatch, handles: object) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi(**ANSWERS | {"amdsmi_get_processor_handles": handles}))
    assert isinstance(find_telemetry(device("cuda")), Nothing)  # type: ignore[arg-type]


def test_a_rows_telemetry_is_the_median_and_every_reason_seen() -> None:
    readings = [
        {"sm_mhz": 1980, "power_w": 300, "temp_c": 50, "throttle": ()},
        {"sm_mhz": 1700, "power_w": 690, "temp_c": 60, "throttle": ("power-cap",)},
        {"sm_mhz": 1980, "power_w": 310, "temp_c": 55, "throttle": ("sw-thermal",)},
    ]
    assert telemetry_columns(readings) == {
        "sm_mhz": 1980,
        "power_w": 310,
        "temp_c": 55,
        "throttle": "power-cap;sw-thermal",
    }


def test_a_quantity_that_no_device_reports_has_no_column_and_another_has() -> None:
    assert telemetry_columns([{"temp_c": None, "energy_j": 3}, {"energy_j": 5}]) == {"energy_j": 4}


@pytest.mark.gpu
def test_nvml_knows_the_device() -> None:
    from kbench.measure.machine.device import Device

    reader = find_telemetry(Device())
    if not reader.source:
        pytest.skip("no telemetry library answers here")
    reading = reader.read()
    assert reading["sm_mhz"] and reading["power_w"] and reading["temp_c"]
    assert reader.peak_gbps() and reader.peak_gbps() > 100
    assert reader.energy_counter_mj()
