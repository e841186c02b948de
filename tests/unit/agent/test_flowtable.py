from __future__ import annotations

import io

import pytest
from rich.console import Console

from ccplane.agent.flowtable import look, render, rows
from ccplane.agent.runfile import RunInfo
from tests.unit.agent.fakes import FakeInfo, FakeStats

AGENT = RunInfo(pid=77, pin_dir="/x", programs={1: "cubic/default"})


class View:
    def __init__(self, infos: list[FakeInfo], stats: list[FakeStats]) -> None:
        self._infos = infos
        self._stats = stats

    def flows(self) -> list[FakeInfo]:
        return self._infos

    def all_stats(self) -> list[FakeStats]:
        return self._stats

    def counters(self) -> dict[str, int]:
        return {}


def one(info: FakeInfo, stats: FakeStats) -> dict:
    return look(View([info], [stats]))


def test_throughput_and_loss_are_those_of_the_interval() -> None:
    before = one(
        FakeInfo(1), FakeStats(1, bytes_acked=1_000, lost_pkts=5, delivered_pkts=100, now_us=1_000_000)
    )
    now = one(
        FakeInfo(1), FakeStats(1, bytes_acked=501_000, lost_pkts=6, delivered_pkts=199, now_us=1_500_000)
    )
    (row,) = rows(before, now, AGENT)
    assert row.throughput_bytes_per_s == 1_000_000  # 500,000 bytes in half a second
    assert row.loss_ratio == pytest.approx(0.01)  # 1 of 1 + 99 segments
    assert row.steered_by == "cubic/default"


def test_first_look_has_no_throughput() -> None:
    (row,) = rows({}, one(FakeInfo(1), FakeStats(1)), None)
    assert row.throughput_bytes_per_s is None
    assert row.loss_ratio is None


def test_flow_without_acks_has_throughput_zero_and_unknown_loss() -> None:
    silent = one(FakeInfo(1), FakeStats(1, bytes_acked=9, now_us=5))
    (row,) = rows(silent, silent, None)
    assert row.throughput_bytes_per_s == 0
    assert row.loss_ratio is None


@pytest.mark.parametrize(
    ("stats", "agent", "expected"),
    [
        (FakeStats(1, fallback=True), AGENT, "fallback"),
        (FakeStats(1, program=0), AGENT, "fallback"),
        (FakeStats(1, program=1), AGENT, "cubic/default"),
        (FakeStats(1, program=2), AGENT, "program 2"),
        (FakeStats(1, program=1), None, "program 1"),
    ],
)
def test_row_says_who_steers(stats: FakeStats, agent: RunInfo | None, expected: str) -> None:
    (row,) = rows({}, one(FakeInfo(1), stats), agent)
    assert row.steered_by == expected


def test_fastest_flow_comes_first() -> None:
    infos = [FakeInfo(1), FakeInfo(2)]
    before = look(View(infos, [FakeStats(1), FakeStats(2)]))
    now = look(View(infos, [FakeStats(i, bytes_acked=1_000 * i, now_us=2_000_000) for i in (1, 2)]))
    assert [row.flow_id for row in rows(before, now, None)] == [2, 1]


def test_flow_that_closes_between_the_calls_is_left_out() -> None:
    assert look(View([FakeInfo(1)], [FakeStats(1), FakeStats(2)])).keys() == {1}


def test_addresses_are_no_markup() -> None:
    info = FakeInfo(1, src_addr="fd00::1", dst_addr="fe80::2")
    out = io.StringIO()
    Console(file=out, width=200).print(render(rows({}, one(info, FakeStats(1)), AGENT), {}, AGENT))
    assert "[fd00::1]:40000" in out.getvalue()
    assert "[fe80::2]:5001" in out.getvalue()


def test_table_shows_units_addresses_and_what_is_missing() -> None:
    info = FakeInfo(1, src_addr="2001:db8::1", cc_name="ccp.cubic")
    stats = FakeStats(1, cwnd_bytes=144_800, rate_bytes_per_s=1_250_000, srtt_us=20_500, retrans_pkts=3)
    out = io.StringIO()
    Console(file=out, width=200).print(
        render(rows({}, one(info, stats), AGENT), {"flows_over_limit": 4}, AGENT)
    )
    text = out.getvalue()
    for shown in (
        "[2001:db8::1]:40000",
        "10.0.0.2:5001",
        "ccp.cubic",
        "cubic/default",
        "144.8",
        "10.00",
        "20.50",
        "cwnd kB",
        "throughput Mbit/s",
        "1 flows; agent pid 77; 4 sockets found no slot (--max-flows); without one now: none",
    ):
        assert shown in text


def test_table_says_so_when_no_agent_runs() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(render([], {}, None))
    assert "no agent" in out.getvalue()
