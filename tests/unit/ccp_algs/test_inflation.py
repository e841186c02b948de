"""Options of Flex-Cubic's judgement: memory of congestion, minimum of a window, range of the flow itself."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ccp_algs.episodes import CUT
from ccp_algs.inflation import INFLATED, NO_LOSS, QUEUE, REMEMBERED, SPARED_LOSS
from tests.unit.ccp_algs.folded import OPEN, Folded, events
from tests.unit.ccp_algs.test_flex_cubic import MIN_RTT_US, flex, lose, report


def remembering(memory_us: int = 1_000_000) -> Folded:
    """Return a flow that has just repaired a loss with inflation."""
    flow = flex(memory_us=memory_us)
    lose(flow, 100_000)
    flow.ca_state = OPEN
    flow.ack(130, rtt_us=60_000, cwnd_limited=0)
    flow.reports.clear()
    return flow


@pytest.mark.parametrize(
    ("after_us", "rtt_us", "expected"),
    [
        (0, 50_000, REMEMBERED),  # first half of the memory: every loss counts
        (500_000, 50_000, REMEMBERED),
        (750_000, 75_000, REMEMBERED),  # half of the second half: threshold 1.5
        (750_000, 74_999, SPARED_LOSS),
        (990_000, 98_999, SPARED_LOSS),
        (990_000, 99_000, REMEMBERED),
        (999_999, 100_000, INFLATED),
        (1_000_000, 99_999, SPARED_LOSS),  # forgotten
        (60_000_000, 50_000, SPARED_LOSS),
    ],
)
def test_memory_of_congestion_decays(after_us: int, rtt_us: int, expected: int) -> None:
    flow = remembering()
    flow.ack(0, after_us=after_us, rtt_us=60_000, cwnd_limited=0)
    lose(flow, rtt_us)
    assert report(flow, rtt_us=60_000)["loss_reason"] in (expected, NO_LOSS)
    assert max(one["loss_reason"] for one in flow.reports) == expected
    assert events(flow) == ([CUT] if expected > SPARED_LOSS else [])


def test_memory_is_not_renewed_by_what_counts_because_of_it() -> None:
    flow = remembering()
    for _ in range(3):
        flow.ack(130, after_us=400_000, rtt_us=60_000, cwnd_limited=0)
        lose(flow, 50_000)
        flow.ca_state = OPEN
    assert events(flow) == [CUT], "at 0.4 s; at 0.8 s the threshold is 1.6, and 1.2 s is forgotten"


def test_minimum_of_a_window_follows_a_longer_path() -> None:
    flow = flex(window_us=2_000_000)
    flow.ack(0, rtt_us=50_000, cwnd_limited=0)
    for _ in range(20):
        flow.ack(0, after_us=50_000, rtt_us=110_000, cwnd_limited=0)
    lose(flow, 120_000, ca_state=OPEN)
    assert events(flow) == [CUT], "the old path is still in the window"
    for _ in range(40):
        flow.ack(1, after_us=50_000, rtt_us=110_000, cwnd_limited=0)
    flow.ack(130, rtt_us=110_000, cwnd_limited=0)
    lose(flow, 120_000)
    found = report(flow, rtt_us=120_000)
    assert (found["min_rtt_us"], found["loss_reason"]) == (110_000, SPARED_LOSS)
    assert events(flow) == [CUT], "only the first one"


def test_minimum_of_the_kernel_takes_a_longer_path_for_a_queue() -> None:
    flow = flex()
    for _ in range(200):
        flow.ack(0, after_us=50_000, rtt_us=110_000, cwnd_limited=0)
    lose(flow, 120_000)
    assert events(flow) == [CUT]


def queued(srtts_us: list[int], min_rtt_us: int = MIN_RTT_US, permille: int = 800) -> Folded:
    """Return a flow that has seen these smoothed RTTs, 50 ms apart, and looks at its own range."""
    flow = flex(queue_permille=permille)
    flow.min_rtt_us, flow.srtt_us = min_rtt_us, srtts_us[0]
    flow.ack(0, after_us=30_000_000, cwnd_limited=0)  # what was before is forgotten
    flow.ack(0, after_us=30_000_000, cwnd_limited=0)
    for srtt_us in srtts_us:
        flow.srtt_us = srtt_us
        flow.ack(0, after_us=50_000, cwnd_limited=0, rtt_us=min_rtt_us)
    flow.reports.clear()
    return flow


@pytest.mark.parametrize(
    ("largest_us", "now_us", "expected"),
    [
        (62_500, 62_500, QUEUE),  # a buffer of a quarter of the BDP, full: k * minRTT is out of reach
        (62_500, 60_000, QUEUE),  # borderline: 0.8 of the range
        (62_500, 59_999, SPARED_LOSS),
        (62_500, 50_000, SPARED_LOSS),
        (56_251, 56_251, QUEUE),  # the smallest range that is more than noise
        (56_250, 56_250, SPARED_LOSS),
        (50_000, 50_000, SPARED_LOSS),  # no range at all
    ],
)
def test_queue_shows_in_the_range_of_the_flow_itself(largest_us: int, now_us: int, expected: int) -> None:
    flow = queued([50_000, largest_us, now_us])
    lose(flow, MIN_RTT_US)  # the sample may be anything
    assert events(flow) == ([CUT] if expected == QUEUE else [])
    reasons = [one["loss_reason"] for one in flow.reports] or [report(flow)["loss_reason"]]
    assert reasons == [expected]


def test_range_of_a_lan_is_noise_below_a_millisecond() -> None:
    for rise_us, expected in ((1_000, []), (1_001, [CUT])):
        flow = queued([100, 100 + rise_us], min_rtt_us=100)
        flow.set(k_permille=100_000)
        lose(flow, 100)
        assert events(flow) == expected


def test_range_is_that_of_the_last_seconds() -> None:
    flow = queued([50_000, 300_000] + 201 * [50_000] + [60_000])
    lose(flow, MIN_RTT_US)
    assert events(flow) == [CUT], "an RTT of 300 ms, 10 s ago, hides no queue"
    flow = queued([50_000, 300_000] + 90 * [50_000] + [60_000])
    lose(flow, MIN_RTT_US)
    assert events(flow) == [], "4.5 s ago it does"


@given(
    rtts_us=st.lists(st.tuples(st.integers(1, 3_000_000), st.integers(0, 3_000_000)), min_size=1, max_size=50)
)
@example(rtts_us=[(1, 0), (9, 1_900_000), (9, 900_000)])  # few ACKs: buckets that turn late
def test_window_minimum_is_that_of_the_window_or_of_its_last_half_at_least(
    rtts_us: list[tuple[int, int]],
) -> None:
    window_us = 2_000_000
    flow = flex(window_us=window_us)
    samples: list[tuple[int, int]] = []
    for rtt_us, after_us in rtts_us:
        flow.ack(0, after_us=after_us, rtt_us=rtt_us, cwnd_limited=0)
        samples.append((flow.now_us, rtt_us))
        kept = min(flow["bucket_min_us"], flow["old_bucket_min_us"])
        assert kept <= min(rtt for at, rtt in samples if at > flow.now_us - window_us // 2)
        assert kept >= min(rtt for at, rtt in samples if at > flow.now_us - window_us)
