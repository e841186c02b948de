"""Reductions that telemetry finds wrong afterwards: which are due, which are taken back, and how often."""

import pytest

from ccp_algs.hindsight import Hindsight, Reduction
from ccp_algs.int_summary import CALM, FULL, OVERFLOW, WIRELESS

RTT_US = 50_000
INTERVAL_US = 10_000
CUT_US = 10_000_000


def reduced(number: int = 1, at_us: int = CUT_US, doubtful: bool = True) -> Hindsight:
    """Return what is known behind a reduction."""
    hindsight = Hindsight()
    hindsight.reduced(Reduction(number, at_us, RTT_US), doubtful=doubtful)
    return hindsight


def receive(hindsight: Hindsight, end_us: int, verdict: int) -> None:
    hindsight.received(CUT_US + end_us - INTERVAL_US, CUT_US + end_us, verdict)


def test_overflow_without_a_reduction_so_far_is_due() -> None:
    hindsight = Hindsight()
    receive(hindsight, 0, OVERFLOW)
    assert hindsight.is_due(RTT_US)


@pytest.mark.parametrize("verdict", [CALM, WIRELESS, FULL])
def test_nothing_else_is_due(verdict: int) -> None:
    hindsight = Hindsight()
    receive(hindsight, 0, verdict)
    assert not hindsight.is_due(RTT_US)


@pytest.mark.parametrize(
    ("end_us", "due"),
    [
        (-40_000, False),  # lost before the reduction
        (5_000, False),  # as it was made: the reason for it, or of the same window
        (60_000, False),  # seen within a round trip: the data was sent before
        (60_001, True),
        (200_000, True),
    ],
)
def test_overflow_of_data_that_a_reduction_answered_is_not_due(end_us: int, due: bool) -> None:
    hindsight = reduced(doubtful=False)
    receive(hindsight, end_us, OVERFLOW)
    assert hindsight.is_due(RTT_US) == due


# What was heard, as (end of the interval behind the reduction, verdict), and whether the last of it excuses.
STORIES = [
    ([(-20_000, WIRELESS), (-10_000, CALM), (0, CALM)], True),  # the summary was first
    ([(-20_000, WIRELESS), (-10_000, CALM)], False),  # more may come of that time
    ([(-20_000, CALM), (0, CALM)], False),  # nothing was lost, as far as known
    ([(-20_000, CALM), (0, WIRELESS)], True),
    ([(-20_000, CALM), (9_000, WIRELESS)], True),  # an interval that began before the reduction
    ([(-20_000, CALM), (10_000, WIRELESS)], False),  # one that began with it: not the loss at hand
    ([(-20_000, WIRELESS), (0, OVERFLOW)], False),
    ([(-20_000, OVERFLOW), (0, WIRELESS)], False),
    ([(-100_001, OVERFLOW), (0, WIRELESS)], True),  # two round trips before: not the loss at hand
    ([(-100_001, WIRELESS), (0, CALM)], False),
    ([(-10_000, FULL), (0, WIRELESS)], True),  # what the sink says of a loss beats the queue in the mean
]


@pytest.mark.parametrize(("story", "excused"), STORIES)
def test_reduction_for_wireless_losses_is_excused(story: list[tuple[int, int]], excused: bool) -> None:
    hindsight = reduced(number=7)
    found = 0
    for end_us, verdict in story:
        receive(hindsight, end_us, verdict)
        found = hindsight.excused()
    assert found == (7 if excused else 0)


def test_overflow_settles_it() -> None:
    hindsight = reduced()
    receive(hindsight, 5_000, OVERFLOW)
    assert hindsight.excused() == 0
    receive(hindsight, 6_000, WIRELESS)
    assert hindsight.excused() == 0


def test_reduction_that_was_undone_answers_nothing() -> None:
    hindsight = reduced()
    receive(hindsight, 30_000, OVERFLOW)
    assert not hindsight.is_due(RTT_US)
    hindsight.undone()
    assert hindsight.is_due(RTT_US)
    assert hindsight.excused() == 0, "there is nothing left to take back"
