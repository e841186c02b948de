"""A probe's events and an agent's reports as one stream, with a stand-in for the probe."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ccplane.agent import cli
from ccplane.agent.client import Client
from ccplane.agent.features.probes.commands import drawn, line
from ccplane.agent.features.probes.timeline import HOLD_US, ProbeTimeline, Recorded, Timeline, record
from telemetry.bpfcc import Event, Table, why_not
from tests.repeating import repeating
from tests.unit.agent.fakes import FakeCreated, FakeInfo, FakeReport
from tests.unit.agent.test_control import Served, running


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, HOLD_US)), max_size=60),
    st.lists(st.integers(5, 100), min_size=1, max_size=20),
)
def test_rows_that_come_within_the_hold_are_given_in_order(
    happened: list[tuple[int, int]], pauses: list[int]
) -> None:
    """Rows with a time [ms] and a delay of arrival [us]."""
    arrivals = sorted((1000 * at_ms + delay_us, 1000 * at_ms) for at_ms, delay_us in happened)
    timeline = Timeline()
    given: list[int] = []
    now_us, turn = 0, 0
    while arrivals:
        now_us += 1000 * pauses[turn % len(pauses)]
        turn += 1
        come = [t_us for arrival_us, t_us in arrivals if arrival_us <= now_us]
        arrivals = [one for one in arrivals if one[0] > now_us]
        timeline.put({"t_us": t_us} for t_us in come)
        given += [row["t_us"] for row in timeline.take(now_us - HOLD_US)]
    given += [row["t_us"] for row in timeline.take()]
    assert given == sorted(1000 * at_ms for at_ms, _ in happened)
    assert timeline.late == 0


def test_rows_of_one_time_stay_as_they_came_and_late_ones_are_counted() -> None:
    timeline = Timeline()
    timeline.put({"t_us": 5, "number": number} for number in range(10))
    assert [row["number"] for row in timeline.take(5)] == list(range(10))
    timeline.put([{"t_us": 4}, {"t_us": 6}])
    assert [row["t_us"] for row in timeline.take(5)] == [4]
    assert timeline.late == 1
    assert [row["t_us"] for row in timeline.take()] == [6]


THIRD = 3
"""A flow whose ports no other has."""


class Probe:
    """A probe that returns the test's events."""

    def __init__(self) -> None:
        self.dropped = 3
        self.without_clock: list[str] = []
        self.unreadable = ["odd"]
        self.sources = ["acks"]
        self.waiting: list[Event] = []

    def put(self, *ago_us: int, **fields: Any) -> None:
        now_us = time.monotonic_ns() // 1000
        self.waiting += [Event(now_us - one, "acks", fields) for one in ago_us]

    def drain(self, timeout_s: float = 0.0) -> list[Event]:
        time.sleep(timeout_s)
        taken, self.waiting = self.waiting, []
        return taken


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    made.feed(FakeCreated(FakeInfo(THIRD, src_port=41_000)))
    with running(made):
        yield made


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.address) as made:
        yield made


def ports(client: Client, flow_id: int) -> dict[str, Any]:
    row = client.flows().loc[flow_id]
    return {"sport": int(row["src_port"]), "dport": int(row["dst_port"])}


def reporting(served: Served, *flow_ids: int) -> Any:

    def report() -> None:
        now_us = time.monotonic_ns() // 1000
        served.feed(*(FakeReport(one, served.handle, now_us=now_us, acked=1448) for one in flow_ids))

    return repeating(report, 0.01)


def test_events_and_reports_come_in_order_and_name_their_flow(served: Served, client: Client) -> None:
    probe = Probe()
    own = ports(client, THIRD)

    def emit() -> None:
        probe.put(*random.Random(7).sample(range(100_000), 5), srtt_us=9, **own)
        probe.put(1000, srtt_us=8, sport=1, dport=2)

    with reporting(served, 1, THIRD), repeating(emit, 0.02):
        seen = record(probe, client, 0.5)  # type: ignore[arg-type]
    times = [row["t_us"] for row in seen.rows]
    assert times == sorted(times)
    assert seen.begin_us <= times[0]
    assert times[-1] <= seen.end_us
    assert set(seen.reports["flow_id"]) == {1, THIRD}
    assert (seen.reports["acked"] == 1448).all()
    assert set(seen.events.loc[seen.events["srtt_us"] == 9, "flow_id"]) == {THIRD}
    assert seen.events.loc[seen.events["srtt_us"] == 8, "flow_id"].isna().all()
    assert seen.reports["t_s"].between(0, 0.5).all()
    assert seen.dropped_events == 0  # three were lost before


def test_of_one_flow_other_flows_are_left_out_and_what_names_none_is_kept(
    served: Served, client: Client
) -> None:
    probe = Probe()
    first, third = ports(client, 1), ports(client, THIRD)

    def emit() -> None:
        probe.put(0, of="first", **first)
        probe.put(0, of="third", **third)
        probe.put(0, of="another socket", sport=1, dport=2)
        probe.put(0, of="nobody")

    with reporting(served, 1, THIRD), repeating(emit, 0.02):
        seen = record(probe, client, 0.3, flow=THIRD)  # type: ignore[arg-type]
    assert set(seen.events["of"]) == {"third", "nobody"}
    assert set(seen.reports["flow_id"]) == {THIRD}


def test_what_is_held_comes_when_it_ends(client: Client) -> None:
    probe = Probe()
    probe.put(0, 10, 20, n=1)
    turns = iter([False, True])
    rows = list(ProbeTimeline(probe, client).rows(lambda: next(turns)))  # type: ignore[arg-type]
    assert len(rows) == 3
    assert rows[0]["t_us"] < rows[2]["t_us"]


def test_a_recording_of_nothing_has_tables() -> None:
    nothing = Recorded(0, 1, [])
    assert list(nothing.reports.columns) == list(nothing.events.columns) == ["t_s", "t_us", "flow_id"]


def test_a_field_that_is_named_as_what_all_have_is_reported_apart() -> None:
    row = {"stream": "report", "t_us": 5, "flow_id": 1, "cwnd_bytes": 7, "fields": {"cwnd_bytes": 8}}
    table = Recorded(0, 10, [row]).reports
    assert (table.loc[0, "cwnd_bytes"], table.loc[0, "field_cwnd_bytes"]) == (7, 8)


def test_lines_have_time_source_flow_and_what() -> None:
    event = {"stream": "probe", "t_us": 1_500_000, "flow_id": None, "source": "acks", "fields": {"a": 1}}
    assert line(event).split() == ["1.500000", "acks", "a=1"]
    report = {
        "stream": "report", "t_us": 2_000_000, "flow_id": 7, "cwnd_bytes": 10, "rate_bytes_per_s": 0,
        "missed": 0, "timeout": True, "fold_error": False, "fields": {"acked": 5},
    }  # fmt: skip
    assert line(report).split() == ["2.000000", "report", "7", "cwnd_bytes=10", "timeout=True", "acked=5"]
    assert line(event).index("a=1") == line(report).index("cwnd")


@pytest.mark.parametrize("arguments", [[], ["x.c", "-e", "y"], ["/nowhere/x.c"]])
def test_there_is_one_text(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli.app, ["probe", *arguments])
    assert done.exit_code == 1
    assert done.stderr.partition(":")[0] == "probe.no_text"


def test_without_an_agent_it_says_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["probe", "-e", "text", "--connect", f"ipc://{tmp_path}/none"])
    assert done.exit_code == 2
    assert done.stderr.startswith("control.no_agent: ")


@pytest.mark.skipif(why_not() is None, reason="bcc and the kernel's headers are here")
def test_without_bcc_it_says_how_to_get_it(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "mine.c"
    file.write_text("TRACEPOINT_PROBE(tcp, tcp_probe) { return 0; }")
    done = CliRunner().invoke(cli.app, ["probe", str(file), "--connect", served.address])
    assert done.exit_code == 1
    assert done.stderr.startswith("probe.no_")
    assert "fix  apt install" in done.stderr


class Attached(Probe):
    """A probe for the command, with an event at each poll."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.without_clock = ["acks"]

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def drain(self, timeout_s: float = 0.0) -> list[Event]:
        self.put(0, n=1)
        return super().drain(timeout_s)

    def read_tables(self) -> list[Table]:
        return [Table("by_port", [{"key": 80, "value": 9}])]


def test_json_is_one_row_a_line_and_tables_come_last(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ccplane.agent.features.probes.commands.BccProbe", Attached)
    arguments = ["probe", "-e", "text", "--json", "-n", "4", "--connect", served.address]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0
    *rows, table = [json.loads(one) for one in done.stdout.splitlines()]
    assert [(row["stream"], row["source"], row["fields"]) for row in rows] == [
        ("probe", "acks", {"n": 1})
    ] * 4
    assert (table["stream"], table["source"]) == ("table", "by_port")
    assert table["entries"] == [{"key": 80, "value": 9}]
    assert table["t_us"] >= rows[-1]["t_us"]
    assert "each event has the time at which it was read" in done.stderr
    assert "odd: not shown" in done.stderr
    assert "3 events were lost" in done.stderr


def test_it_ends_after_its_seconds(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ccplane.agent.features.probes.commands.BccProbe", Attached)
    arguments = ["probe", "-e", "text", "--seconds", "0.4", "--json", "--connect", served.address]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0
    times = [row["t_us"] for row in map(json.loads, done.stdout.splitlines())]
    assert 300_000 <= times[-1] - times[0] < 5_000_000


def test_tables_are_drawn_an_entry_a_line_and_histograms_as_bcc_has_them() -> None:
    assert drawn(Table("by_port", [{"key": 80, "value": 9}, {"key": 22, "value": 1}])) == (
        "\nby_port:\n  80: 9\n  22: 1"
    )
    ends = {"key": {"sport": 80, "state": 1}, "value": {"count": 9}}
    assert drawn(Table("by_ends", [ends])) == "\nby_ends:\n  sport=80 state=1: count=9"
    assert drawn(Table("by_port", [])) == "\nby_port: empty"
    sizes = Table("sizes", [{"key": 11, "value": 9}], "0 -> 1 : 9 |***|")
    assert drawn(sizes) == "\nsizes:\n0 -> 1 : 9 |***|"
