from __future__ import annotations

import time
from typing import Any

from agent.panel import MAX_FLOWS, WINDOW_S, Curves, Panel, _control
from ccp_base.errors import ParamError


def parameter(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "value": value, "default": value, "low": None, "high": None, "choices": [],
        "unit": "", "doc": "what it does", **more,
    }  # fmt: skip


def report(flow_id: int, t_s: float, cwnd_bytes: int = 10_000, **fields: int) -> dict[str, Any]:
    return {
        "flow_id": flow_id, "t_us": round(1e6 * t_s), "cwnd_bytes": cwnd_bytes, "rate_bytes_per_s": 0,
        "fields": fields,
    }  # fmt: skip


class FakeStream:
    def __init__(self) -> None:
        self.rows = [report(1, 10.0, srtt_us=20_000), report(1, 11.0, 20_000)]
        self.closed = False

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        time.sleep(0.01)
        return self.rows.pop(0) if self.rows else None

    def close(self) -> None:
        self.closed = True


class FakeClient:
    def __init__(self) -> None:
        self.set_to: list[tuple[dict[str, Any], int | None]] = []
        self.streams = FakeStream()

    def get_params(self, algorithm: str | None, flow: int | None) -> dict[str, list[dict[str, Any]]]:
        return {
            "mine": [
                parameter("beta", 0.5, low=0.1, high=0.9),
                parameter("on", True),
                parameter("mode", "a", choices=["a", "b"]),
            ]
        }

    def set(self, values: dict[str, Any], *, flow: int | None) -> int:
        if values.get("mine.beta") == 0.9:
            raise ParamError("param.out_of_range", "too much")
        self.set_to.append((values, flow))
        return 1

    def stream(self, flow: int | None, *, timeout_s: float) -> FakeStream:
        return self.streams


def test_moving_a_slider_sets_the_parameter_and_shows_what_is_wrong() -> None:
    client: Any = FakeClient()
    panel = Panel(client, flow=3)
    try:
        panel.sliders["mine.beta"].value = 0.7
        panel.sliders["mine.on"].value = False
        assert client.set_to == [({"mine.beta": 0.7}, 3), ({"mine.on": False}, 3)]
        panel.sliders["mine.beta"].value = 0.9
        assert "param.out_of_range" in panel.widget.children[-1].value
        before = panel.widget.children[0].value
        end_s = time.monotonic() + 20
        while panel.widget.children[0].value == before:
            assert time.monotonic() < end_s
            time.sleep(0.01)
        assert panel._curves.flow_ids == [1]
    finally:
        panel.close()
    assert client.streams.closed


def test_each_parameter_gets_the_control_that_fits() -> None:
    kinds = {
        "FloatSlider": parameter("x", 0.5, low=0.0, high=1.0),
        "FloatText": parameter("x", 0.5),
        "IntSlider": parameter("x", 5, low=0, high=10),
        "Text": parameter("x", 5, low=0, high=1 << 40),
        "Checkbox": parameter("x", True),
        "Dropdown": parameter("x", "a", choices=["a", "b"]),
    }
    for kind, row in kinds.items():
        assert type(_control("mine.x", row)).__name__ == kind


def test_lines_count_time_from_the_newest_report() -> None:
    curves = Curves()
    curves.add(report(1, 0.0, 1000))
    curves.add(report(1, WINDOW_S + 1, 2000, srtt_us=5))
    curves.add(report(2, WINDOW_S + 2, 3000))
    assert curves.line(1, "cwnd_bytes") == ([-1.0], [2000.0])
    assert curves.line(1, "srtt") == ([-1.0], [5.0])
    assert curves.line(2, "rate") == ([], [])
    assert curves.draw().startswith(b"\x89PNG")


def test_silent_flows_make_room_for_new_ones() -> None:
    curves = Curves()
    for flow_id in range(MAX_FLOWS + 1):
        curves.add(report(flow_id, 1.0))
    assert curves.flow_ids == list(range(MAX_FLOWS))
    curves.add(report(99, 1.0 + 2 * WINDOW_S))
    assert curves.flow_ids == [99]
