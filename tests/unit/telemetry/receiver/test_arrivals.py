from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccplane.datapath import sim
from telemetry.receiver import arrival_rows, kernel_probe
from telemetry.receiver.arrivals import Arrivals, ArrivalWindow, Arrived, understood, variation_us
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.flows import FlowWindows
from telemetry.receiver.kernel_probe import KernelProbe
from telemetry.receiver.rtt import percentile
from telemetry.receiver.windows import Windows
from telemetry.schema import FlowId, ReceiverSignal
from tests.unit.telemetry.receiver.test_windows import OTHER, OWN, PEER, SECOND, closed, ends, reading


def arrived(
    cookie: int,
    segs: int = 10,
    ce: int = 0,
    delays: dict[int, int] | None = None,
    peer: str = PEER,
    resent: int | None = 0,
) -> Arrived:
    return Arrived(cookie, ends(cookie, peer), segs, ce, delays or {}, resent)


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=300))
def test_the_variation_is_nearest_rank(delays_us: list[int]) -> None:
    counts: dict[int, int] = {}
    for delay_us in delays_us:
        counts[delay_us] = counts.get(delay_us, 0) + 1
    assert variation_us(counts) == percentile(sorted(delays_us), 99)
    assert variation_us({}) is None


def test_only_clocks_that_tick_as_we_think_are_understood() -> None:
    assert understood(2 * SECOND, 2000, 1000)
    assert understood(2 * SECOND, 2 * SECOND, 1)
    assert not understood(2 * SECOND, 200, 1000)  # 10 ms per tick, as on old systems
    assert not understood(2 * SECOND, 2000, 1)
    assert not understood(2 * SECOND, 2000, 0)  # not known yet
    assert understood(SECOND // 5, 20, 1000)  # the first window passed a growing queue


def test_a_bins_middle_is_at_most_a_sixteenth_off() -> None:
    bounds_us = sim.arrival_bins_us()
    middles_us = arrival_rows.middles_us(bounds_us)
    assert len(middles_us) == len(bounds_us)
    for begin_us, middle_us, end_us in zip(bounds_us, middles_us, bounds_us[1:], strict=False):
        assert begin_us <= middle_us < end_us
        assert end_us - 1 - middle_us <= max(middle_us / 16, 0)
    assert bounds_us[-1] > 10 * SECOND


def test_flows_that_the_kernel_had_no_room_for_are_reported_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("elapsed_us", "ticks", "tick_us", "cookie", "segs", "ce_segs", "resent_segs", "stamped")
    none = np.zeros(
        0, [(name, "u8") for name in (*names, "saddr", "daddr", "sport", "dport")] + [("bins", "2u4")]
    )
    kernel = SimpleNamespace(dropped=0, bin_bounds_us=sim.arrival_bins_us, drain=lambda: none)
    monkeypatch.setattr(kernel_probe, "_open", lambda _inode: kernel)
    probe = KernelProbe()
    assert probe.read() == ([], True)
    kernel.dropped = 5
    assert [probe.read()[1] for _ in range(2)] == [False, True]


def test_without_the_native_module_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccplane.base._native", None)
    monkeypatch.delattr("ccplane.base._native", raising=False)
    with pytest.raises(ReceiverError) as caught:
        KernelProbe()
    assert caught.value.slug == "receiver.no_kernel_probe"


def test_a_window_of_several_intervals_slides() -> None:
    window = ArrivalWindow(2)
    found = []
    for number in range(1, 4):
        window.add(arrived(1, number, number, {5: number}, resent=number))
        window.add(arrived(2, 10, 0, {5: 1, 6: 9}))
        found.append(window.close())
    found.append(window.close())
    assert found == [
        Arrivals(11, 1, {5: 2, 6: 9}, 1),
        Arrivals(23, 3, {5: 5, 6: 18}, 3),
        Arrivals(25, 5, {5: 7, 6: 18}, 5),
        Arrivals(13, 3, {5: 4, 6: 9}, 3),
    ]
    assert window.close() == Arrivals()


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(0, 9)))), st.integers(1, 3)
)
def test_with_one_interval_a_window_every_mark_is_in_exactly_one_signal(
    turns: list[list[tuple[int, int, int]]], intervals: int
) -> None:
    peers, flows = Windows(0, intervals), FlowWindows(0, intervals)
    marks = 0
    for now_us, turn in enumerate(turns, 1):
        peers.add_sockets(now_us, [])
        for windows in (peers, flows):
            windows.add_arrivals(now_us, [arrived(key, segs, ce) for key, segs, ce in turn], is_all=True)
        of_peers, of_flows = peers.close(now_us), flows.close(now_us)
        marks += sum(one.ce_marks or 0 for one in of_peers)
        assert sum(one.ce_marks or 0 for one in of_flows) == sum(one.ce_marks or 0 for one in of_peers)
    expected = sum(
        ce * min(intervals, len(turns) - place) for place, turn in enumerate(turns) for _, _, ce in turn
    )
    assert marks == expected


def test_the_probes_marks_win_over_the_sockets_unless_it_missed_some() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [reading(1)])
    windows.add_sockets(SECOND, [reading(1, ce=2)])
    windows.add_arrivals(SECOND, [arrived(1, ce=3, delays={4000: 10})], is_all=True)
    one = closed(windows, SECOND)[PEER]
    assert (one.ce_marks, one.owd_variation_us) == (3, 4000)
    windows.add_sockets(2 * SECOND, [reading(1, ce=9)])
    windows.add_arrivals(2 * SECOND, [arrived(1, ce=1, delays={50: 10})], is_all=False)
    one = closed(windows, 2 * SECOND)[PEER]
    assert (one.ce_marks, one.owd_variation_us) == (7, 50)


def test_what_was_sent_again_is_known_of_connections_with_timestamps() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [reading(1), reading(2)])
    found = []
    for now_us, resent, is_all in ((1, (3, None), True), (2, (None, None), True), (3, (3, 0), False)):
        windows.add_sockets(now_us, [reading(1), reading(2)])
        came = [arrived(key, resent=count) for key, count in enumerate(resent, 1)]
        windows.add_arrivals(now_us, came, is_all=is_all)
        found.append(closed(windows, now_us)[PEER].resent_pkts)
    assert found == [3, None, None]


def test_a_connection_in_which_nothing_came_has_no_marks_and_no_delay() -> None:
    windows = Windows(0, 1, [PEER])
    for now_us in (0, SECOND):
        windows.add_sockets(now_us, [reading(1)])
    windows.add_arrivals(SECOND, [], is_all=True)
    one = closed(windows, SECOND)[PEER]
    assert (one.ce_marks, one.resent_pkts, one.owd_variation_us) == (0, 0, None)


def test_without_connections_nothing_is_said_of_them() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [])
    windows.add_arrivals(SECOND, [], is_all=True)
    one = closed(windows, SECOND)[PEER]
    assert (one.flows, one.ce_marks, one.resent_pkts, one.owd_variation_us) == (0, None, None, None)


def test_a_connection_that_came_and_went_between_two_readings_counts() -> None:
    windows = Windows(0, 1)
    windows.add_sockets(0, [])
    windows.add_sockets(SECOND, [])
    windows.add_arrivals(SECOND, [arrived(5, ce=2)], is_all=True)
    one = closed(windows, SECOND)[PEER]
    assert (one.flows, one.ce_marks) == (1, 2)
    windows.add_sockets(2 * SECOND, [])
    assert closed(windows, 2 * SECOND) == {}


def of_flows(windows: FlowWindows, now_us: int) -> dict[int, ReceiverSignal]:
    found = {}
    for one in windows.close(now_us):
        assert one.flow is not None
        found[one.flow.src_port - 10_000] = one
    return found


def test_each_flow_has_what_its_own_socket_and_segments_say() -> None:
    windows = FlowWindows(0, 1)
    windows.add_sockets(0, [reading(1, bytes_received=10**6, ce=50)])
    windows.add_sockets(
        SECOND,
        [
            reading(1, bytes_received=3 * 10**6, ce=51, data_out=5),
            reading(2, OTHER, bytes_received=500, out_of_order=4),
        ],
    )
    marked = [arrived(1, 100, 8, {900: 100}, resent=4), arrived(2, 100, 0, {20_000: 100}, OTHER)]
    windows.add_arrivals(SECOND, marked, is_all=True)
    found = of_flows(windows, SECOND)
    first, second = found[1], found[2]
    assert first.flow == FlowId(src=PEER, src_port=10_001, dst=OWN, dst_port=80)
    assert (first.peer, first.address, first.window_ms, first.flows) == (PEER, OWN, 1000, 1)
    assert (first.goodput_bytes_per_s, first.ce_marks, first.owd_variation_us) == (2 * 10**6, 8, 900)
    assert (first.loss_pkts, second.loss_pkts) == (0, None)
    assert (first.resent_pkts, second.resent_pkts) == (4, 0)
    assert second.peer == OTHER
    assert (second.goodput_bytes_per_s, second.reordered_pkts) == (500, 4)
    assert (second.ce_marks, second.owd_variation_us) == (0, 20_000)
    assert all(one.rtt_samples is None and one.duplicate_pkts is None for one in found.values())


def test_without_the_probe_flows_have_what_their_sockets_count() -> None:
    windows = FlowWindows(0, 1)
    for now_us, ce in ((0, 0), (SECOND, 4)):
        windows.add_sockets(now_us, [reading(1, ce=ce)])
    one = of_flows(windows, SECOND)[1]
    assert (one.ce_marks, one.resent_pkts, one.owd_variation_us) == (4, None, None)


def test_of_flows_that_no_reading_of_sockets_had_only_arrivals_are_known() -> None:
    windows = FlowWindows(0, 1)
    windows.add_sockets(0, [])
    windows.add_arrivals(SECOND, [arrived(1, ce=2, delays={70: 10})], is_all=True)
    one = of_flows(windows, SECOND)[1]
    assert (one.ce_marks, one.owd_variation_us) == (2, 70)
    assert (one.goodput_bytes_per_s, one.reordered_pkts, one.loss_pkts) == (None, None, None)


def test_flows_of_peers_that_were_not_named_have_no_signal() -> None:
    windows = FlowWindows(0, 1, [OTHER])
    windows.add_sockets(0, [reading(1), reading(2, OTHER)])
    windows.add_arrivals(0, [arrived(3), arrived(4, peer=OTHER)], is_all=True)
    windows.add_sockets(SECOND, [reading(2, OTHER)])
    windows.add_arrivals(SECOND, [arrived(4, peer=OTHER)], is_all=True)
    assert set(of_flows(windows, SECOND)) == {2, 4}


def test_a_flow_that_ended_is_in_every_window_that_saw_it_and_then_in_none() -> None:
    windows = FlowWindows(0, 2)
    windows.add_sockets(0, [reading(1)])
    windows.add_sockets(SECOND // 2, [reading(1, bytes_received=1000)])
    found = []
    for end in range(1, 5):
        windows.add_sockets(end * SECOND, [])
        windows.add_arrivals(end * SECOND, [arrived(1, ce=6)] if end == 1 else [], is_all=True)
        found.append([one.ce_marks for one in windows.close(end * SECOND)])
    assert found == [[6], [6], [], []]
