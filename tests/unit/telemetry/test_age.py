from __future__ import annotations

from telemetry.age import MAX_SENDERS, WINDOW_US, Ages, retained_age_us

HOUR_US = 3_600_000_000
SKEW_US = 7 * HOUR_US
"""Offset of the sender's monotonic clock from the receiver's."""


def send(ages: Ages, sent_us: int, way_us: int, *, skew_us: int = SKEW_US) -> int:
    return ages.age_us("a", sent_us + skew_us, sent_us + 10 * HOUR_US, sent_us + way_us)


def test_the_first_message_counts_as_new() -> None:
    assert send(Ages(), 0, 5000) == 0


def test_what_waited_is_older_whatever_the_clocks_say() -> None:
    ages = Ages()
    send(ages, 0, 300)
    assert send(ages, 1000, 2_000_300) == 2_000_000


def test_a_faster_message_becomes_the_measure() -> None:
    ages = Ages()
    send(ages, 0, 5000)
    assert send(ages, 10, 200) == 0
    assert send(ages, 20, 5200) == 5000


def test_a_slow_clock_makes_messages_no_older_than_it_loses_in_two_windows() -> None:
    ages = Ages()
    for n in range(100_000):  # ten per second, 50 ppm slow: half a second in total
        sent_us = n * 100_000
        assert ages.age_us("a", sent_us, sent_us, sent_us + n * 5) <= 2 * WINDOW_US * 50 / 1e6


def test_a_sender_that_was_paused_is_believed_again_after_two_windows() -> None:
    """The sender's clocks stopped for five seconds, and later samples must not count as old for hours."""
    ages = Ages()
    send(ages, 0, 300)
    late = [send(ages, n * 100_000, 5_000_300) for n in range(1, 400)]
    assert late[0] == 5_000_000
    assert max(late[2 * WINDOW_US // 100_000 :]) == 0


def test_a_message_with_both_clocks_ahead_costs_two_windows_and_no_hour() -> None:
    ages = Ages()
    send(ages, 0, 300)
    ages.age_us("a", 1_000_000 + SKEW_US + HOUR_US, 1_000_000 + 11 * HOUR_US, 1_000_300)
    late = [send(ages, n * 100_000, 300) for n in range(11, 400)]
    assert late[0] == HOUR_US
    assert max(late[2 * WINDOW_US // 100_000 :]) == 0


def test_what_a_sender_had_queued_while_the_broker_was_away_is_old() -> None:
    ages = Ages()
    send(ages, 0, 300)
    back_us = 2 * HOUR_US
    for n in range(100):  # one per minute, all delivered together
        sent_us = n * 60_000_000
        assert send(ages, sent_us, back_us - sent_us + n) == back_us - sent_us + n - 300
    assert send(ages, back_us, 400) == 100


def test_a_sender_that_booted_again_is_another() -> None:
    ages = Ages()
    send(ages, 0, 300)
    assert send(ages, 1_000_000, 900, skew_us=0) == 0
    assert send(ages, 1_000_500, 1400, skew_us=0) == 500


def test_senders_are_reported_apart() -> None:
    ages = Ages()
    assert ages.age_us("a", 0, 0, 100) == 0
    assert ages.age_us("b", 0, 0, 50_000) == 0
    assert ages.age_us("a", 10, 10, 50_110) == 50_000


def test_memory_has_a_limit() -> None:
    ages = Ages()
    for n in range(MAX_SENDERS + 1):
        ages.age_us(f"s{n}", 0, 0, 1000)
    assert len(ages._senders) <= MAX_SENDERS


def test_retained_messages_are_dated_by_wall_clocks() -> None:
    assert retained_age_us(1_000_000, 4_000_000) == 3_000_000
    assert retained_age_us(4_000_000, 1_000_000) == 0
