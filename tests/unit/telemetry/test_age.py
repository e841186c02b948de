from __future__ import annotations

from telemetry.age import MAX_SENDERS, Ages, retained_age_us

HOUR_US = 3_600_000_000
SKEW_US = 7 * HOUR_US
"""How far the sender's monotonic clock is from ours."""


def send(ages: Ages, sent_us: int, way_us: int, *, skew_us: int = SKEW_US) -> int:
    return ages.age_us("a", sent_us + skew_us, sent_us + 10 * HOUR_US, sent_us + way_us)


def test_the_first_message_counts_as_new() -> None:
    assert send(Ages(), 0, 5000) == 0


def test_what_waited_is_older_whatever_the_clocks_say() -> None:
    ages = Ages()
    send(ages, 0, 300)
    assert send(ages, 1000, 2_000_300) == 1_999_800  # less 200 us for the drift of two seconds


def test_a_faster_message_becomes_the_measure() -> None:
    ages = Ages()
    send(ages, 0, 5000)
    assert send(ages, 10, 200) == 0
    assert send(ages, 20, 5200) in (4999, 5000)


def test_a_slow_clock_does_not_make_messages_old() -> None:
    ages = Ages()
    for second in range(1000):  # 50 ppm slow
        late_us = second * 50
        assert ages.age_us("a", second * 1_000_000, second * 1_000_000, second * 1_000_000 + late_us) == 0


def test_frequent_messages_let_the_measure_up_as_well() -> None:
    ages = Ages()
    for n in range(100_000):  # one a millisecond, 50 ppm slow
        sent_us = n * 1000
        assert ages.age_us("a", sent_us, sent_us, sent_us + n // 20) <= 1


def test_a_sender_that_booted_again_is_another() -> None:
    ages = Ages()
    send(ages, 0, 300)
    assert send(ages, 1_000_000, 900, skew_us=0) == 0
    assert send(ages, 1_000_500, 1400, skew_us=0) == 500


def test_senders_are_told_apart() -> None:
    ages = Ages()
    assert ages.age_us("a", 0, 0, 100) == 0
    assert ages.age_us("b", 0, 0, 50_000) == 0
    assert ages.age_us("a", 10, 10, 50_110) == 49_995


def test_memory_has_a_limit() -> None:
    ages = Ages()
    for n in range(MAX_SENDERS + 1):
        ages.age_us(f"s{n}", 0, 0, 1000)
    assert len(ages._senders) <= MAX_SENDERS


def test_retained_messages_are_dated_by_wall_clocks() -> None:
    assert retained_age_us(1_000_000, 4_000_000) == 3_000_000
    assert retained_age_us(4_000_000, 1_000_000) == 0
