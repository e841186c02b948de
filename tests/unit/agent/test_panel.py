"""The panel's back end. tests/notebooks tests its front end."""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from ccplane.agent.marks import Mark
from ccplane.agent.panel import feed, front, samples
from ccplane.agent.panel.feed import Feed
from ccplane.agent.panel.gather import Gatherer, add_mark
from ccplane.agent.panel.samples import QUANTITIES, Columns, Extremes, History, Rates, rows, thinned
from ccplane.agent.panel.worker import Worker
from ccplane.base.errors import LoadError

INDEX = {quantity.name: i for i, quantity in enumerate(QUANTITIES)}


def flow(flow_id: int, now_us: int | None = 1_000_000, **totals: int) -> dict[str, Any]:
    known = {
        "cwnd_bytes": 10_000, "rate_bytes_per_s": 0, "srtt_us": 20_000, "bytes_acked": 0, "lost_pkts": 0,
        "retrans_pkts": 0,
    }  # fmt: skip
    return {"flow_id": flow_id, "now_us": now_us, **known, **totals}


def one_row(value: float, width: int = 2) -> samples.Values:
    return np.full((1, len(QUANTITIES), width), value, np.float32)


class Sent:
    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], list[bytes]]] = []
        self.feed = Feed(lambda content, buffers: self.messages.append((content, buffers)))

    @property
    def rows(self) -> list[int]:
        return [content["shape"][0] for content, _ in self.messages if "shape" in content]

    def last(self) -> tuple[list[float], samples.Values]:
        content, (times, values) = self.messages[-1]
        return np.frombuffer(times).tolist(), np.frombuffer(values, np.float32).reshape(content["shape"])


def test_totals_become_rates_and_what_is_not_known_is_nan() -> None:
    columns, rates = Columns(), Rates()
    columns.update([7, 8])
    first = rows([flow(7), flow(8, None)], columns, rates, {})
    assert first.shape == (1, len(QUANTITIES), 2)
    assert first[0, INDEX["cwnd_bytes"], 0] == 10_000
    assert np.isnan(first[0, INDEX["rate_bytes_per_s"], 0])  # 0 means that there is none
    assert np.isnan(first[0, INDEX["delivery_bytes_per_s"], 0])
    assert np.isnan(first[0, :, 1]).all()
    second = rows([flow(7, 1_500_000, bytes_acked=50_000, retrans_pkts=3)], columns, rates, {})
    assert second[0, INDEX["delivery_bytes_per_s"], 0] == 100_000
    assert second[0, INDEX["retrans_pkts_per_s"], 0] == 6
    silent = rows([flow(7, 1_500_000, bytes_acked=50_000)], columns, rates, {})
    assert np.isnan(silent[0, INDEX["delivery_bytes_per_s"], 0])


def test_a_report_field_has_its_extremes() -> None:
    columns, extremes = Columns(), Extremes()
    columns.update([7])
    for value in (5.0, 1.0, 3.0):
        extremes.add(7, value)
    extremes.add(99, 1.0)  # no such flow any more
    both = rows([flow(7)], columns, Rates(), extremes.take())
    assert both[:, INDEX["reported"], 0].tolist() == [1.0, 5.0]
    assert extremes.take() == {}


def test_columns_are_used_again_when_there_are_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MAX_FLOWS", 2)
    columns = Columns()
    assert columns.update([1, 2, 3]) == ({1: 0, 2: 1}, [])
    assert (columns.turned_away, columns.width) == (1, 2)
    assert columns.update([2, 3]) == ({3: 0}, [1])
    assert (columns.turned_away, columns.flows) == (0, {2: 1, 3: 0})


def test_thinning_keeps_the_extremes() -> None:
    values = np.zeros((1000, 1, 2), np.float32)
    values[437, 0, 0], values[438, 0, 0] = 9, -9
    values[:, 0, 1] = np.nan
    times, thin = thinned(np.arange(1000.0), values, 20)
    assert thin.shape == (20, 1, 2)
    assert (thin[:, 0, 0].max(), thin[:, 0, 0].min()) == (9, -9)
    assert np.isnan(thin[:, 0, 1]).all()
    assert (times[0], times[-1]) == (0, 999)
    assert (np.diff(times) >= 0).all()
    same_times, same = thinned(times, thin, 20)
    assert same is thin
    assert same_times is times


def test_history_is_bounded_and_wider_rows_come_later() -> None:
    history = History()
    assert history.all() is None
    history.add(0.0, one_row(1))
    history.add(samples.HISTORY_S + 1, one_row(2))
    history.add(samples.HISTORY_S + 2, one_row(3, width=3))
    history.clear_column(0)
    found = history.all()
    assert found is not None
    times, values = found
    assert times.tolist() == [samples.HISTORY_S + 1, samples.HISTORY_S + 2]
    assert np.isnan(values[:, :, 0]).all()
    assert (values[0, 0, 1], values[1, 0, 2]) == (2, 3)
    assert np.isnan(values[0, :, 2]).all()


def test_each_moment_is_sent_while_the_page_confirms() -> None:
    sent = Sent()
    for number in range(1, 60):
        sent.feed.add(number / 10, one_row(number))
        sent.feed.confirm(number)
    assert sent.rows == [1] * 59
    times, values = sent.last()
    assert (times, values[0, 0, 0]) == ([5.9], 59)
    assert (sent.feed.messages, sent.feed.raw) == (59, 59 * (8 + 4 * 2 * len(QUANTITIES)))


def test_a_page_that_does_not_confirm_gets_little_and_misses_no_extreme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(feed.time, "monotonic", lambda: now_s[0])
    sent = Sent()
    for number in range(feed.AHEAD + 500):
        now_s[0] += 0.001
        sent.feed.add(number / 10, one_row(1000 if number == 300 else number / 1000))
    assert sent.rows == [1] * feed.AHEAD
    now_s[0] += feed.SLOW_S
    sent.feed.add(60.0, one_row(0))
    assert sent.rows[-1] == feed.MAX_ROWS
    assert sent.last()[1].max() == 1000
    sent.feed.confirm(sent.messages[-1][0]["number"])
    sent.feed.add(60.1, one_row(0))
    assert sent.rows[-1] == 1


def test_a_page_that_is_opened_gets_the_past() -> None:
    sent = Sent()
    sent.feed.replay()
    assert sent.messages == []
    for number in range(1000):
        sent.feed.add(number / 10, one_row(number))
        sent.feed.confirm(number)
    sent.feed.replay()
    assert sent.messages[-1][0]["kind"] == "past"
    assert sent.rows[-1] == feed.MAX_HISTORY_ROWS
    times, values = sent.last()
    assert (times[0], times[-1]) == (0.0, 99.9)
    assert values[-1, 0, 0] == 999


def test_the_front_end_is_one_module_with_the_licence_of_what_it_brings() -> None:
    script = front.script()
    assert script.count("export default") == 1
    assert "import " not in script.partition("export default")[0].replace("|import|", "")
    assert "panel" in front.style()
    assert "MIT License" in (front.HERE / "uplot/LICENSE").read_text()


class WithoutAgent:
    """A client whose agent has gone."""

    def stream(self, **_: object) -> WithoutAgent:
        return self

    def close(self) -> None:
        pass

    def ask(self, *_: object) -> None:
        raise LoadError("control.no_agent", "no agent is running")

    source = ask


def test_threads_send_in_the_context_of_the_cell() -> None:
    """ipykernel 7.0 finds the cell of a message in a context variable, which new threads lack by default."""
    cell = ContextVar[str]("cell")
    sent: SimpleQueue[tuple[str, str]] = SimpleQueue()
    panel_feed = Feed(lambda content, _: sent.put((content["kind"], cell.get("none"))))
    cell.set("cell 7")
    gatherer = Gatherer(WithoutAgent(), panel_feed, None, None)  # type: ignore[arg-type]
    worker = Worker(WithoutAgent(), panel_feed, None)  # type: ignore[arg-type]
    worker.submit({"do": "source", "algorithm": "mine"})
    assert {sent.get(timeout=30), sent.get(timeout=30)} == {("trouble", "cell 7"), ("answer", "cell 7")}
    gatherer.close()
    worker.close()


def test_a_slider_that_moves_has_one_mark_with_its_last_value() -> None:
    marks: deque[dict[str, Any]] = deque()
    for step, value in enumerate((0.5, 0.6, 0.7)):
        add_mark(marks, Mark("parameter", f"cubic.beta = {value}"), 10 + 0.5 * step)
    add_mark(marks, Mark("parameter", "cubic.c = 1"), 11.2)
    add_mark(marks, Mark("parameter", "cubic.beta = 0.9"), 20.0)
    assert [(one["t"], one["text"]) for one in marks] == [
        (10, "cubic.beta = 0.7"),
        (11.2, "cubic.c = 1"),
        (20.0, "cubic.beta = 0.9"),
    ]


class WithoutFlows(WithoutAgent):
    """A client of an agent without flows, which cannot give its state."""

    def ask(self, *_: object) -> list[object]:  # type: ignore[override]
        return []

    def ready(self) -> list[object]:
        return []

    def status(self) -> None:
        raise LoadError("control.no_agent", "no agent is running")


def test_a_user_can_mark_what_the_agent_cannot_know() -> None:
    sent: SimpleQueue[dict[str, Any]] = SimpleQueue()
    panel_feed = Feed(lambda content, _: sent.put(content))
    gatherer = Gatherer(WithoutFlows(), panel_feed, None, None)  # type: ignore[arg-type]
    gatherer.mark("half the rate")
    while (message := sent.get(timeout=30))["kind"] != "marks":
        pass
    gatherer.close()
    assert [(one["kind"], one["text"]) for one in message["marks"]] == [("path", "half the rate")]
