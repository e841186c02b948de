"""What emitted programs do, under the reference interpreter."""

from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.fold import (
    INFINITY,
    Ack,
    Cwnd,
    Flow,
    FoldProgram,
    count,
    distance,
    every,
    field,
    latest,
    max_,
    maximum,
    min_,
    minimum,
    never,
    on,
    smoothed,
    state,
    total,
)
from tests.unit.ccp_algs.folded import Folded

NO_SAMPLE = 0xFFFFFFFF


class Observing(FoldProgram):
    acked = total(Ack.bytes_acked)
    acks = count()
    slow_acks = count(Flow.rtt_sample_us > 50_000)
    rtt_us = latest(Flow.rtt_sample_us)
    low_us = minimum(Flow.rtt_sample_us)
    high_us = maximum(Flow.rtt_sample_us, per_report=True)
    mean_us = smoothed(Flow.rtt_sample_us, keep=5)
    when = Ack.lost_pkts_sample > 0


def observe(*rtts_us: int) -> dict[str, int]:
    flow = Folded(Observing)
    for rtt_us in rtts_us:
        assert flow.ack(2, rtt_us=rtt_us) is None
    report = flow.ack(0, rtt_us=NO_SAMPLE, lost_pkts_sample=1)
    assert report is not None
    return report


def test_samples_are_summed_up_without_those_that_are_none() -> None:
    report = observe(40_000, NO_SAMPLE, 80_000, 60_000)
    assert report["acked"] == 4 * 2 * 1448
    assert report["acks"] == 5
    assert report["slow_acks"] == 2
    assert (report["rtt_us"], report["low_us"], report["high_us"]) == (60_000, 40_000, 80_000)
    # 40000; (40000 + 80000) / 2 = 60000; (60000 + 60000) / 2; the last ACK repeats it
    assert report["mean_us"] == 60_000


def test_extremes_say_so_when_there_was_no_sample() -> None:
    report = observe(NO_SAMPLE)
    assert (report["low_us"], report["high_us"], report["mean_us"]) == (INFINITY, 0, 0)


def test_volatile_fields_start_over_with_each_report() -> None:
    flow = Folded(Observing)
    flow.ack(3, rtt_us=70_000, lost_pkts_sample=1)
    second = flow.ack(1, rtt_us=30_000, lost_pkts_sample=1)
    assert second is not None
    assert (second["acked"], second["acks"], second["high_us"]) == (1448, 1, 30_000)
    assert (second["low_us"], second["rtt_us"]) == (30_000, 30_000)


class Periodic(FoldProgram):
    acked = total(Ack.bytes_acked)
    when = every(Flow.rtt_sample_us) | (Ack.lost_pkts_sample > 0)


def test_report_comes_once_a_round_trip_and_on_loss() -> None:
    flow = Folded(Periodic)
    came = [flow.ack(1, after_us=30_000, rtt_us=100_000) is not None for _ in range(12)]
    assert came == [False, False, False, True] * 3
    assert flow.ack(1, after_us=1, lost_pkts_sample=1) is not None
    assert flow.ack(1, after_us=90_000) is None  # the loss restarted the timer


def test_report_waits_for_a_sample_when_the_period_is_the_sample() -> None:
    flow = Folded(Periodic)
    assert flow.ack(1, after_us=500_000, rtt_us=NO_SAMPLE) is None
    assert flow.ack(1, after_us=1, rtt_us=100_000) is not None


A = state(0)
B = state(0)


class Arithmetic(FoldProgram):
    """Every operator on two registers that can hold anything."""

    a = A
    b = B
    low = state(INFINITY)
    difference = state(0)
    gap = state(0)
    quotient = state(0)
    capped = state(0)
    at_least = state(0)
    at_most = state(0)
    other = state(0)
    lines = (
        difference.set(a - b),
        gap.set(distance(a, b)),
        quotient.set(a // b),
        capped.set(low + b),
        at_least.set(0),
        at_least.set(1, when=a >= min_(b, INFINITY - 1)),
        at_most.set(0),
        at_most.set(1, when=min_(a, INFINITY - 1) <= b),
        other.set(0),
        other.set(1, when=a != b),
    )
    when = never


@given(a=st.integers(0, INFINITY - 1), b=st.integers(0, INFINITY - 1))
def test_arithmetic_never_stops_a_fold(a: int, b: int) -> None:
    flow = Folded(Arithmetic, a=a, b=b)
    flow.ack(1)  # raises ArithmeticError if the fold stops
    result = flow.interpreter.controls
    assert result["difference"] == max(a - b, 0)
    assert result["gap"] == abs(a - b)
    assert result["quotient"] == a // max(b, 1)
    assert result["capped"] == INFINITY
    assert result["at_least"] == (a >= b)
    assert result["at_most"] == (a <= b)
    assert result["other"] == (a != b)


class Conditional(FoldProgram):
    grown = field(0)
    block = on(
        Flow.cwnd_limited,
        Cwnd.set(Cwnd + 1000, when=Flow.ca_state == 0),
        Cwnd.set(max_(Cwnd - 500, 1), when=Flow.ca_state != 0),
        grown.set(Cwnd),
    )
    shrink = Cwnd.set(5000, when=~Flow.cwnd_limited)
    when = Flow.cwnd_limited


def test_conditional_windows_take_effect_one_after_the_other() -> None:
    flow = Folded(Conditional, cwnd_pkts=10)
    start = flow.cwnd
    report = flow.ack(1)
    assert report is not None
    assert flow.cwnd == start + 1000 == report["grown"]
    flow.ca_state = 3
    flow.ack(1)
    assert flow.cwnd == start + 500
    assert flow.ack(1, cwnd_limited=0) is None
    assert flow.cwnd == 5000
