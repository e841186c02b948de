from __future__ import annotations

import statistics
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from telemetry.receiver.rtt import RttWindow, percentile, summarise
from telemetry.receiver.series import Series, difference, total
from telemetry.receiver.tcp import FIELDS, Ends, SocketReading
from telemetry.receiver.windows import Windows
from telemetry.schema import ReceiverSignal

SECOND = 1_000_000
PEER, OTHER, OWN = "10.0.0.1", "2001:db8::1", "10.0.0.2"


def ends(cookie: int, peer: str = PEER) -> Ends:
    return Ends(OWN, 80, peer, 10_000 + cookie)


def reading(cookie: int, peer: str = PEER, **values: int | None) -> SocketReading:
    return SocketReading(cookie, ends(cookie, peer), {**dict.fromkeys(FIELDS, 0), **values})


def test_a_window_of_several_intervals_slides() -> None:
    series = Series(0, {"ce": 100}, intervals=3)
    growths = [series.close(t_us, {"ce": value}) for t_us, value in enumerate([101, 103, 106, 110], 1)]
    assert [growth.values["ce"] for growth in growths] == [1, 3, 6, 9]
    assert [growth.elapsed_us for growth in growths] == [1, 2, 3, 3]


def test_what_is_missing_or_was_set_back_is_none_and_not_zero() -> None:
    assert difference(None, 3) is None
    assert difference(3, None) is None
    assert difference(3, 2) is None
    assert difference(3, 3) == 0
    assert total([1, 2]) == 3
    assert total([1, None]) is None


def test_percentiles_are_nearest_rank() -> None:
    hundred = list(range(1, 101))
    assert [percentile(hundred, p) for p in (50, 95, 99)] == [50, 95, 99]
    assert [percentile([10, 20, 30], p) for p in (50, 95, 99)] == [20, 30, 30]
    assert percentile([7], 99) == 7


@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=300))
def test_a_summary_is_ordered_and_consists_of_what_was_measured(rtts_us: list[int]) -> None:
    found = summarise(rtts_us)
    assert found is not None
    ordered = [found.min_us, found.p50_us, found.p95_us, found.p99_us, found.max_us]
    assert ordered == sorted(ordered)
    assert set(ordered) <= set(rtts_us)
    assert (found.min_us, found.max_us, found.samples) == (min(rtts_us), max(rtts_us), len(rtts_us))
    assert sum(rtt <= found.p99_us for rtt in rtts_us) >= 0.99 * len(rtts_us)


def test_jitter_is_the_mean_difference_of_neighbours_and_p99_is_not_the_mean_deviation() -> None:
    rtts_us = [10_000, 12_000, 11_000, 30_000]
    found = summarise(rtts_us)
    assert found is not None
    assert found.jitter_us == round(statistics.mean(abs(b - a) for a, b in pairwise(rtts_us)))
    assert found.p99_us == 30_000
    alone = summarise([5])
    assert alone is not None
    assert alone.jitter_us is None


def test_rtts_belong_to_the_window_in_which_they_came() -> None:
    window = RttWindow()
    for t_us, rtt_us in ((10, 100), (20, 200), (30, 300)):
        window.add(t_us, rtt_us)
    first, second = window.close(0, 20), window.close(20, 40)
    assert first is not None
    assert second is not None
    assert (first.samples, first.max_us) == (2, 200)
    assert (second.samples, second.max_us) == (1, 300)
    assert window.close(40, 60) is None


def closed(windows: Windows, now_us: int) -> dict[str, ReceiverSignal]:
    return {one.peer: one for one in windows.close(now_us)}


def test_only_what_is_new_since_the_first_reading_counts() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [reading(1, ce=1000, bytes_received=5_000_000, out_of_order=50)])
    windows.add_sockets(SECOND, [reading(1, ce=1003, bytes_received=6_000_000, out_of_order=51)])
    one = closed(windows, SECOND)[PEER]
    assert (one.ce_marks, one.goodput_bytes_per_s, one.reordered_pkts) == (3, 1_000_000, 1)
    assert (one.flows, one.window_ms) == (1, 1000)
    windows.add_sockets(2 * SECOND, [reading(1, ce=1003, bytes_received=6_000_000, out_of_order=51)])
    one = closed(windows, 2 * SECOND)[PEER]
    assert (one.ce_marks, one.goodput_bytes_per_s, one.reordered_pkts) == (0, 0, 0)


def test_sockets_that_come_and_go_between_ends_of_intervals_count() -> None:
    windows = Windows(0, 1)
    windows.add_sockets(0, [])
    windows.add_sockets(100_000, [reading(1, ce=4), reading(2, OTHER, ce=1)])
    windows.add_sockets(200_000, [reading(1, ce=6), reading(3, ce=10)])
    windows.add_sockets(900_000, [])
    found = closed(windows, SECOND)
    assert {peer: (one.ce_marks, one.flows) for peer, one in found.items()} == {PEER: (16, 2), OTHER: (1, 1)}
    windows.add_sockets(2 * SECOND, [])
    assert closed(windows, 2 * SECOND) == {}


def test_a_peer_that_comes_back_starts_again() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [])
    for turn in range(1, 4):
        windows.add_sockets((4 * turn - 1) * SECOND, [reading(turn, ce=7)])
        assert closed(windows, (4 * turn - 1) * SECOND)[PEER].ce_marks == 7
        for pause in range(2):
            windows.add_sockets((4 * turn + pause) * SECOND, [])
            one = closed(windows, (4 * turn + pause) * SECOND)[PEER]
        assert (one.ce_marks, one.flows) == (None, 0)


def test_counters_of_32_bits_may_wrap() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [reading(1, ce=2**32 - 2)])
    windows.add_sockets(SECOND, [reading(1, ce=3)])
    assert closed(windows, SECOND)[PEER].ce_marks == 5


def test_losses_are_known_only_of_what_this_host_sent() -> None:
    windows = Windows(0, 1, [PEER, OTHER])
    windows.add_sockets(0, [reading(1), reading(2, OTHER)])
    windows.add_sockets(SECOND, [reading(1, data_in=9), reading(2, OTHER, data_out=9, retrans=2)])
    found = closed(windows, SECOND)
    assert found[PEER].loss_pkts is None
    assert found[OTHER].loss_pkts == 2


def test_a_kernel_without_the_counter_has_no_marks_by_socket_and_the_hosts_are_the_sole_senders() -> None:
    windows = Windows(0, 1, [PEER, OTHER])
    windows.add_sockets(0, [reading(1, ce=None), reading(2, OTHER, ce=None)])
    windows.add_host({"ce": 50, "duplicates": 8})
    windows.add_sockets(SECOND, [reading(1, ce=None, data_in=9), reading(2, OTHER, ce=None)])
    windows.add_host({"ce": 55, "duplicates": 9})
    found = closed(windows, SECOND)
    assert (found[PEER].ce_marks, found[PEER].duplicate_pkts) == (5, 1)
    assert (found[OTHER].ce_marks, found[OTHER].duplicate_pkts) == (None, None)
    windows.add_sockets(2 * SECOND, [reading(1, ce=None, data_in=10), reading(2, OTHER, ce=None, data_in=1)])
    windows.add_host({"ce": 60, "duplicates": 9})
    found = closed(windows, 2 * SECOND)
    assert [one.ce_marks for one in found.values()] == [None, None]  # it is unknown which peer they belong to


def test_the_sockets_counter_wins_over_the_hosts() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [reading(1)])
    windows.add_host({"ce": 0, "duplicates": None})
    windows.add_sockets(SECOND, [reading(1, ce=2, data_in=2)])
    windows.add_host({"ce": 9, "duplicates": None})
    one = closed(windows, SECOND)[PEER]
    assert (one.ce_marks, one.duplicate_pkts) == (2, None)


def test_named_peers_always_have_a_signal_and_others_none() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [reading(2, OTHER)])
    windows.add_sockets(SECOND, [reading(2, OTHER, ce=1)])
    windows.add_rtt(OTHER, 1, 1)
    found = closed(windows, SECOND)
    assert list(found) == [PEER]
    assert (found[PEER].flows, found[PEER].rtt_samples, found[PEER].ce_marks) == (0, None, None)


def test_rtts_need_no_sockets() -> None:
    windows = Windows(0, 2, [PEER])
    windows.add_rtt(PEER, 400_000, 30_000)
    one = closed(windows, 500_000)[PEER]
    assert (one.rtt_min_us, one.flows, one.window_ms) == (30_000, None, 500)
    windows.add_rtt(PEER, 600_000, 10_000)
    one = closed(windows, SECOND)[PEER]
    assert (one.rtt_min_us, one.rtt_max_us, one.rtt_samples, one.window_ms) == (10_000, 30_000, 2, 1000)
    assert closed(windows, 1_500_000)[PEER].rtt_samples == 1
    assert closed(windows, 2 * SECOND)[PEER].rtt_samples is None


def test_a_socket_that_one_reading_lacks_is_not_new_in_the_next() -> None:
    windows = Windows(0, 1, [PEER])
    windows.add_sockets(0, [reading(1, bytes_received=10**9)])
    windows.add_sockets(100_000, [])
    windows.add_sockets(SECOND, [reading(1, bytes_received=10**9 + 500)])
    assert closed(windows, SECOND)[PEER].goodput_bytes_per_s == 500


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(1, 5), st.integers(0, 9)), st.sets(st.integers(1, 5)), st.booleans()
        )
    )
)
def test_windows_count_every_event_once_whatever_sockets_do(
    turns: list[tuple[dict[int, int], set[int], bool]],
) -> None:
    windows = Windows(0, 1)
    windows.add_sockets(0, [])
    marks: dict[int, int] = {}
    gone: set[int] = set()
    found = 0
    for now_us, (steps, ended, is_end) in enumerate(turns, 1):
        for cookie in steps.keys() - gone:
            marks[cookie] = marks.get(cookie, 0) + steps[cookie]
        windows.add_sockets(now_us, [reading(one, ce=marks[one]) for one in marks if one not in gone])
        gone |= ended & marks.keys()
        if is_end:
            found += sum(one.ce_marks or 0 for one in windows.close(now_us))
    assert found + sum(one.ce_marks or 0 for one in windows.close(len(turns) + 1)) == sum(marks.values())
