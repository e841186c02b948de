from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.screen import Screen

from ccplane.agent.monitor.app import Monitor, about_flow
from ccplane.agent.monitor.detail import DetailScreen
from ccplane.agent.monitor.model import MAX_SHOWN
from ccplane.agent.monitor.overview import Overview
from ccplane.agent.monitor.prompts import AlgorithmPrompt, Help, ParameterPrompt
from ccplane.agent.monitor.source import Happened, Look
from ccplane.agent.monitor.table import COLOURS, WARNING, FlowTable
from ccplane.base.errors import LoadError, ParamError, UsageError
from tests.unit.agent.monitor.faked import FakeSource, fake_source, flow_row, made_up
from tests.unit.agent.monitor.screens import assert_golden, on_screen, press, text_of

NO_AGENT = LoadError(
    "control.no_agent", "no agent runs", where="/sys/fs/bpf/x", fix="start one with `ccp run`"
)


@pytest.fixture(autouse=True)
def _greenwich(monkeypatch: pytest.MonkeyPatch) -> object:
    """Events show the time of day."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def line_with(app: Monitor, words: str) -> str:
    (line,) = [line for line in text_of(app).splitlines() if words in line]
    return line


@pytest.mark.parametrize(
    ("screens", "size"),
    [
        ({"table-150": ()}, (150, 32)),
        ({"table-80": ()}, (80, 24)),
        ({"table-200": ()}, (200, 32)),
        ({"detail-150": ("down", "enter")}, (150, 32)),
        ({"detail-80": ("down", "enter")}, (80, 24)),
        ({"detail-paced": ("down", "down", "enter")}, (150, 32)),
        ({"help": ("question_mark",), "set": ("escape", "down", "s"), "switch": ("escape", "w")}, (150, 32)),
    ],
)
def test_screen_is_the_one_that_was_accepted(
    screens: dict[str, tuple[str, ...]], size: tuple[int, int]
) -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        for name, keys in screens.items():
            await press(app, pilot, *keys)
            assert_golden(app, name)

    on_screen(fake_source(), steps, size=size, looks=40)


def test_without_agent_the_numbers_are_still_there() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        assert_golden(app, "no-agent")
        await press(app, pilot, "enter")
        assert_golden(app, "no-agent-detail")

    on_screen(FakeSource(failure=NO_AGENT), steps, looks=40)


def test_flow_of_the_fallback_and_charts_have_their_colours() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        table = app.screen.query_one(FlowTable)
        fallback, cwnd = table.get_row_at(3)[2:4]
        assert fallback == Text("fallback", style=WARNING)
        assert [span.style for span in cwnd.spans] == [COLOURS[0]]

    on_screen(fake_source(), steps)


def test_cursor_stays_with_its_flow_when_the_order_changes() -> None:
    source = fake_source()
    source.flows = [flow_row(1, throughput_bytes_per_s=9.0), flow_row(2, throughput_bytes_per_s=5.0)]

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        table = app.screen.query_one(FlowTable)
        await press(app, pilot, "down")
        assert (table.selected, table.cursor_row) == (2, 1)
        source.flows = [flow_row(1, throughput_bytes_per_s=1.0), flow_row(2, throughput_bytes_per_s=5.0)]
        await app.look()
        assert (table.selected, table.cursor_row) == (2, 0)
        source.flows = [flow_row(1)]
        await app.look()
        assert table.selected == 1

    on_screen(source, steps, looks=1)


def test_table_that_was_scrolled_stays_there_when_the_order_changes() -> None:
    source = fake_source()
    source.flows = [flow_row(flow_id, throughput_bytes_per_s=100.0 - flow_id) for flow_id in range(1, 100)]

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        table = app.screen.query_one(FlowTable)
        table.scroll_to(y=40, animate=False, immediate=True)
        places: list[float] = []
        app.watch(table, "scroll_y", lambda y: places.append(y), init=False)
        source.flows = [replace(row, throughput_bytes_per_s=1.0 * row.flow_id) for row in source.flows]
        await app.look()
        await pilot.pause()
        assert (table.selected, table.cursor_row) == (1, 98)
        assert (table.scroll_y, places) == (40, [])  # not there and back, either
        await press(app, pilot, "up")
        assert table.scroll_y > 60  # a key goes back to the cursor
        source.flows = source.flows[10:]
        await app.look()
        await pilot.pause()
        assert table.row_count == 89
        assert table.selected == 11  # the last line: the flow under the cursor is gone

    on_screen(source, steps, looks=1)


def test_keys_and_clicks_sort() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "greater_than_sign")
        assert "smoothed RTT ▼" in text_of(app)
        await press(app, pilot, "less_than_sign", "less_than_sign", "r")
        assert "window ▲" in text_of(app)
        await pilot.click(FlowTable, offset=(5, 0))
        await pilot.pause()
        assert "local ▲" in text_of(app)

    on_screen(fake_source(), steps)


def test_filter_is_applied_while_it_is_written_and_escape_ends_it() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        table = app.screen.query_one(FlowTable)
        await press(app, pilot, "slash", *"cub")
        assert table.row_count == 1
        assert "1 of 5 match cub" in text_of(app)
        await press(app, pilot, "enter", "down")
        assert app.focused is table
        await press(app, pilot, "escape")
        assert table.row_count == 5
        assert "match" not in text_of(app)
        assert "words to search for" not in text_of(app)
        await press(app, pilot, "slash")
        assert "words to search for" in text_of(app)
        await press(app, pilot, "enter")
        assert "words to search for" not in text_of(app)

    on_screen(fake_source(), steps)


def test_updates_of_a_filter_are_no_keys() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "slash", "s", "w", "r", "q")
        assert isinstance(app.screen, Overview)
        assert "0 of 5 match swrq" in text_of(app)

    on_screen(fake_source(), steps)


def test_table_shows_the_first_of_very_many_flows_and_says_so() -> None:
    source = fake_source()
    source.flows = [flow_row(flow_id) for flow_id in range(1, MAX_SHOWN + 8)]

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        assert app.screen.query_one(FlowTable).row_count == MAX_SHOWN
        assert f"showing the first {MAX_SHOWN}" in text_of(app)

    on_screen(source, steps, looks=1)


def test_columns_follow_the_size_of_the_terminal() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        assert "pacing rate" in text_of(app)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "pacing rate" not in text_of(app)
        assert "smoothed RTT" in text_of(app)

    on_screen(fake_source(), steps)


def test_pause_stops_the_looks() -> None:
    source = fake_source()

    async def tick(app: Monitor) -> int:
        app.tick()
        await app.workers.wait_for_complete()
        return source.looks

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "space")
        assert "paused" in text_of(app)
        assert await tick(app) == 3
        await press(app, pilot, "space")
        assert "paused" not in text_of(app)
        assert await tick(app) == 4

    on_screen(source, steps, looks=3)


def test_slow_look_leaves_the_next_ones_out() -> None:
    go_on = threading.Event()

    class Slow(FakeSource):
        def look(self) -> Look:
            go_on.wait()
            return super().look()

    source = Slow()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        for _ in range(5):
            app.tick()
            await pilot.pause()
        go_on.set()
        await app.workers.wait_for_complete()
        assert source.looks == 1

    on_screen(source, steps, looks=0)


def test_looks_are_taken_while_views_open_and_close() -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        while source.looks < 3:
            await pilot.pause()
        for _ in range(3):
            await pilot.press("enter", "s", "escape", "w", "escape", "escape")
        before = source.looks
        while source.looks < before + 2:
            await pilot.pause()
        assert isinstance(app.screen, Overview)
        assert app.screen.query_one(FlowTable).row_count == 5

    on_screen(source, steps, looks=0, interval_s=0.2)


def test_receive_only_flows_are_one_line_until_a_key_shows_them() -> None:
    source = FakeSource(receive_only=[3, 4])

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        table = app.screen.query_one(FlowTable)
        assert table.row_count == 3
        assert "3 flows," in text_of(app)
        assert "2 receive-only flows not shown: a shows them" in text_of(app)
        await press(app, pilot, "a")
        assert table.row_count == 5
        assert "2 receive-only flows included: a hides them" in text_of(app)
        await press(app, pilot, "a")
        assert table.row_count == 3
        source.receive_only = []
        await app.look()
        await pilot.pause()
        assert "receive-only" not in text_of(app)

    on_screen(source, steps)


def test_sockets_without_a_slot_are_reported() -> None:
    class Full(FakeSource):
        def look(self) -> Look:
            return replace(super().look(), counters={"flows_over_limit": 12})

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        assert "12 sockets found no slot" in text_of(app)

    on_screen(Full(), steps)


def test_datapath_that_goes_away_is_reported_and_the_last_numbers_stay() -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        source.lost = LoadError("load.not_loaded", "nothing is loaded", fix="start `ccp run`")
        await app.look()
        await pilot.pause()
        assert "load.not_loaded: nothing is loaded; start `ccp run`" in text_of(app)
        assert "10.1.0.1:40001" in text_of(app)
        source.lost = None
        await app.look()
        await pilot.pause()
        assert "load.not_loaded" not in text_of(app)

    on_screen(source, steps)


def test_quit_lets_go_of_the_source() -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        assert not source.closed
        await pilot.press("q")

    on_screen(source, steps)
    assert source.closed


def test_detail_stays_when_its_flow_closes() -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "down", "enter")
        source.gone = [1]  # first the agent forgets it
        await app.look()
        await pilot.pause()
        assert "w_max_bytes" in text_of(app)
        source.flows = [row for row in made_up(41) if row.flow_id != 1]
        await app.look()
        source.failure = NO_AGENT
        await app.look()
        await pilot.pause()
        assert line_with(app, "flow 1").endswith("closed")
        assert "w_max_bytes" in text_of(app)
        await press(app, pilot, "escape")
        assert isinstance(app.screen, Overview)
        assert "10.1.0.1:40001" not in text_of(app)

    on_screen(source, steps)


def test_detail_says_why_the_agent_says_nothing() -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "down", "enter")
        assert "beta" in text_of(app)
        source.failure = NO_AGENT
        await app.look()
        await pilot.pause()
        assert "control.no_agent" in text_of(app)
        assert "beta" not in text_of(app).partition("events")[0]

    on_screen(source, steps)


def test_flow_that_the_agent_does_not_know_is_reported() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "down", "enter")
        assert "flow.gone: no algorithm steers a flow 1" in text_of(app)

    on_screen(FakeSource(gone=[1]), steps)


def test_events_are_those_of_the_flow_and_of_its_algorithm() -> None:
    mine = Happened(1.0, "flow:created", "cubic", 7)
    everyones = Happened(2.0, "param:set", "cubic", None)
    other_flow, other_algorithm = Happened(3.0, "x", "cubic", 8), Happened(4.0, "x", "reno", None)
    assert about_flow([mine, everyones, other_flow, other_algorithm], 7, "cubic") == [mine, everyones]


BETA = ("s", *"beta", "equals_sign", "1", "enter")


@pytest.mark.parametrize(
    ("keys", "asked", "said", "screen"),
    [
        (("down", *BETA), ("set", "beta", "1", "cubic", None), "cubic.beta = 1: 3 flows", Overview),
        (("down", "enter", *BETA), ("set", "beta", "1", "cubic", 1), "cubic.beta = 1: 1 flow", DetailScreen),
        (
            ("down", *BETA[:-1], "tab", "space", "shift+tab", "enter"),
            ("set", "beta", "1", "cubic", 1),
            "cubic.beta = 1: 1 flow",
            Overview,
        ),
        # The first that is another is chosen already: r_tcp, then reno.
        (
            ("down", "w", "down", "enter"),
            ("switch", "reno", None, "cubic"),
            "3 flows switched from cubic to reno",
            Overview,
        ),
    ],
    ids=["parameter of all", "of one, from its view", "of one, from the table", "algorithm"],
)
def test_what_is_chosen_is_changed(
    keys: tuple[str, ...], asked: tuple[Any, ...], said: str, screen: type[Screen[Any]]
) -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, *keys)
        assert isinstance(app.screen, screen)
        assert said in text_of(app)

    on_screen(source, steps)
    assert source.asked == [asked]


def test_refused_parameter_leaves_the_window_open_with_the_reason() -> None:
    source = fake_source()
    source.refusal = ParamError("param.out_of_range", "`beta` cannot be 2", why="the largest value is 1")

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "down", "s", *"beta", "equals_sign", "2", "enter")
        assert isinstance(app.screen, ParameterPrompt)
        assert "param.out_of_range: `beta` cannot be 2 (the largest value is 1)" in text_of(app)
        source.refusal = None
        await press(app, pilot, "backspace", "1", "enter")
        assert isinstance(app.screen, Overview)

    on_screen(source, steps)
    assert [asked[2] for asked in source.asked] == ["2", "1"]


def test_setting_without_a_value_is_not_asked_for() -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "s", *"beta", "enter")
        assert "param.syntax: cannot parse NAME=VALUE: `beta`" in text_of(app)
        await press(app, pilot, "escape")

    on_screen(source, steps)
    assert source.asked == []


def test_refused_algorithm_leaves_the_window_open_with_the_reason() -> None:
    source = fake_source()
    source.refusal = UsageError("algorithm.unknown", "no running algorithm `r_tcp`")

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "down", "enter", "w", "enter")
        assert isinstance(app.screen, AlgorithmPrompt)
        assert "algorithm.unknown: no running algorithm `r_tcp`" in text_of(app)

    on_screen(source, steps)
    assert source.asked == [("switch", "r_tcp", 1, "cubic")]


@pytest.mark.parametrize("key", ["s", "w"])
def test_changes_without_an_agent_are_one_clear_line(key: str) -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, key)
        assert isinstance(app.screen, Overview)
        assert "control.no_agent: no agent runs at /sys/fs/bpf/x; start one with `ccp run`" in text_of(app)

    on_screen(FakeSource(failure=NO_AGENT), steps)


@pytest.mark.parametrize("key", ["s", "w", "enter"])
def test_keys_that_mean_a_flow_do_nothing_without_one(key: str) -> None:
    source = fake_source()

    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, key)
        assert isinstance(app.screen, Overview)

    on_screen(source, steps, looks=0)


def test_windows_do_not_open_over_each_other() -> None:
    async def steps(app: Monitor, pilot: Pilot[None]) -> None:
        await press(app, pilot, "question_mark", "s", "w")
        assert isinstance(app.screen, Help)
        await press(app, pilot, "escape", "w", "s")
        assert isinstance(app.screen, AlgorithmPrompt)

    on_screen(fake_source(), steps)
