"""Losses judged, and room found, by echoes of the path in the ACKs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import CubicFold
from ccp_algs.episodes import CUT, STARTED, TIMEOUT
from tests.unit.ccp_algs.folded import INFINITY, MSS, OPEN, RECOVERY, Folded, acks, events, timeout
from tests.unit.ccp_algs.steered import CURVE, RTT_US, Steered

# What the counters grew by before the ACK that shows a loss, and the window behind it, of 100 packets.
JUDGED = [
    # congestion, link, unknown, keep (L1), mild (L2)
    (0, 1, 0, 100, 95),
    (1, 0, 0, 70, 70),
    (0, 0, 1, 70, 70),
    (0, 0, 0, 70, 70),
    (1, 1, 0, 70, 70),
    (0, 1, 1, 70, 70),
]


@pytest.mark.parametrize(("congestion", "link", "unknown", "keep", "mild"), JUDGED)
@pytest.mark.parametrize("ca_state", [OPEN, RECOVERY])
def test_a_loss_is_what_the_counters_say(
    congestion: int, link: int, unknown: int, keep: int, mild: int, ca_state: int
) -> None:
    for mode, expected in (("keep", keep), ("mild", mild), ("cubic", 70)):
        flow = Steered(wireless_loss=mode)
        flow.echo(losses_congestion=congestion, losses_link=link, losses_unknown=unknown)
        flow.lose(ca_state)
        assert flow.cwnd_pkts == pytest.approx(expected, abs=0.01), mode


def test_each_loss_on_a_link_excuses_one() -> None:
    flow = Steered()
    flow.echo(losses_link=2)
    flow.lose()
    flow.lose()
    assert flow.cwnd_pkts == 100
    flow.lose()
    assert flow.cwnd_pkts == 70


@pytest.mark.parametrize("claimed_pkts", [101, 10_000, 1 << 40])
def test_a_false_claim_excuses_no_more_than_a_window(claimed_pkts: int) -> None:
    flow = Steered()
    flow.echo(losses_link=claimed_pkts)
    for _ in range(101):  # in flight, and lost on the first of these ACKs
        flow.lose()
    assert flow.cwnd_pkts == 100
    flow.lose()
    assert flow.cwnd_pkts == 70


def test_congestion_is_answered_once() -> None:
    flow = Steered()
    flow.echo(losses_congestion=3)
    flow.lose()
    flow.lose()
    flow.repair()
    flow.echo(losses_link=1)
    flow.lose()
    assert flow.cwnd_pkts == 70
    flow.echo(losses_congestion=4, losses_link=2)
    flow.lose()
    assert flow.cwnd_pkts == 49


@pytest.mark.parametrize(("age_us", "cwnd_pkts"), [(999_999, 100), (1_000_000, 70), (INFINITY, 70)])
def test_an_old_echo_is_none(age_us: int, cwnd_pkts: int) -> None:
    flow = Steered()
    flow.echo(losses_link=1, age_us=age_us)
    flow.lose()
    assert flow.cwnd_pkts == cwnd_pkts


def test_an_echo_goes_before_a_summary() -> None:
    flow = Steered()
    flow.receive("wireless")
    flow.echo(losses_congestion=1)
    flow.lose()
    assert flow.cwnd_pkts == 70
    flow.receive("wireless", after_us=5_000)
    flow.ack(0, cwnd_limited=0)
    assert (flow.cwnd_pkts, events(flow)) == (70, [STARTED, CUT]), "nothing is taken back"


def test_a_summary_orders_nothing_where_there_are_echoes() -> None:
    flow = Steered()
    flow.echo(losses_link=1)
    flow.lose()
    flow.receive("overflow", after_us=10_000)
    flow.ack(0, cwnd_limited=0)
    assert flow.cwnd_pkts == 100


@pytest.mark.parametrize(
    ("path", "ssthresh_pkts"),
    [
        ({}, 100),
        ({"free_bytes": INFINITY}, 100),
        ({"free_bytes": 5 * MSS}, 70),  # 50 of 55 in use
        ({"all_known": 0}, 70),
        ({"losses_congestion": 1}, 70),
        ({"losses_unknown": 1}, 70),
    ],
)
def test_a_timeout_is_congestion_without_room(path: dict[str, int], ssthresh_pkts: int) -> None:
    flow = Steered()
    flow.echo(**path)
    flow.ack(1, cwnd_limited=0)
    timeout(flow, after_us=300_000)
    assert flow.ssthresh_pkts == ssthresh_pkts
    assert (TIMEOUT in events(flow)) == (ssthresh_pkts == 70)


def test_timeouts_are_judged_by_the_echo_of_the_last_ack() -> None:
    flow = Steered()
    flow.echo(losses_link=1)
    flow.ack(1, cwnd_limited=0)
    for after_us in (300_000, 600_000, 1_200_000):
        flow.path["age_us"] += after_us
        timeout(flow, after_us=after_us)
    assert (events(flow), flow.ssthresh_pkts) == ([STARTED], 100)


def test_the_age_of_what_judged_is_reported() -> None:
    flow = Steered()
    flow.echo(losses_congestion=1, age_us=12_345)
    flow.lose()
    assert flow.reports[-1]["echo_age_us"] == 12_345


# Growth


@pytest.mark.parametrize(("increment", "added_pkts"), [(0, 2), (1, 2), (2, 4), (3, 6)])
def test_window_grows_by_the_room_that_an_echo_reports(increment: int, added_pkts: int) -> None:
    flow = Steered(10, 100, increment=increment, period_rtts=4.0)
    # 50 / (125 a second * 4 * 0.1 s * 1) = 1
    flow.echo(arrival_bytes_per_s=125 * MSS)
    flow.ack(2)
    assert flow.cwnd_pkts == pytest.approx(10 + added_pkts, abs=0.01)


def test_growth_of_a_round_is_bounded_by_what_an_echo_leaves_each_flow() -> None:
    flow = Steered(10, None, increment=3, hystart=False)
    flow.echo(arrival_bytes_per_s=MSS, free_bytes=12 * MSS, flow_count=2)
    for expected_pkts in (16, 22, 28):
        for _ in range(5):
            flow.ack(20, after_us=RTT_US // 5)
        assert flow.cwnd_pkts == expected_pkts


def test_what_the_flow_sends_in_a_round_arrives_whatever_the_mean_says() -> None:
    flow = Steered(50, 100, increment=1)
    flow.echo(arrival_bytes_per_s=MSS)
    flow.ack(8)
    assert flow.cwnd_pkts == pytest.approx(50 + 8 * 50 / (50 * 4), abs=0.01)


@pytest.mark.parametrize("path", [{"all_known": 0}, {"free_bytes": INFINITY}, {"age_us": 1_000_000}])
def test_growth_by_an_echo_that_does_not_say_it_is_slow_start(path: dict[str, int]) -> None:
    flow = Steered(10, 100, increment=3)
    flow.echo(**path)
    flow.ack(2)
    assert flow.cwnd_pkts == 12


# Properties

COUNTED = st.tuples(*[st.integers(0, 3)] * 3)


@given(acks=acks(), losses=st.sets(st.integers(0, 99), max_size=50))
def test_losses_on_links_change_nothing_in_new_l1(acks: list[dict[str, Any]], losses: set[int]) -> None:
    lossy, calm = Steered(), Steered()
    for flow in (lossy, calm):
        flow.echo()
    for i, ack in enumerate(acks):
        if i in losses:
            lossy.echo(losses_link=lossy.path.get("losses_link", 0) + 1)
        lossy.ca_state = RECOVERY if i in losses else OPEN
        lossy.ack(**ack, lost_pkts_sample=int(i in losses))
        calm.ack(**ack)
        assert lossy.cwnd == calm.cwnd
        for register in ("ssthresh_bytes", *CURVE):
            assert lossy[register] == calm[register]


@given(acks=acks(), losses=st.dictionaries(st.integers(0, 99), COUNTED, max_size=20))
def test_what_no_link_lost_is_answered_as_by_cubic(
    acks: list[dict[str, Any]], losses: dict[int, tuple[int, int, int]]
) -> None:
    steered = Steered()
    plain = Folded(CubicFold, steered.cwnd_pkts)
    plain.ssthresh = steered.ssthresh
    plain.ack(0, cwnd_limited=0)
    steered.echo()
    counts = dict.fromkeys(("losses_congestion", "losses_unknown"), 0)
    for i, ack in enumerate(acks):
        for name, more in zip(counts, losses.get(i, ()), strict=False):
            counts[name] += more
        steered.echo(**counts)
        for flow in (steered, plain):
            flow.set(**{name: steered[name] for name in ("k_us", "w_max_bytes")})
            flow.ca_state = RECOVERY if i in losses else OPEN
            flow.ack(**ack, lost_pkts_sample=int(i in losses))
        assert steered.cwnd == plain.cwnd
