"""How many lines the log gets about one cause."""

from __future__ import annotations

from ccplane.base.loglimit import LINES, MAX_CAUSES, PERIOD_S, LogLimit


def test_each_cause_has_its_lines_per_period() -> None:
    now_s = [7.0]
    limit = LogLimit(lambda: now_s[0])
    for _ in range(3):
        admitted = [limit.admit("a") for _ in range(100)]
        assert sum(one is not None for one in admitted) == LINES
        assert limit.admit(("b", now_s[0])) is not None
        now_s[0] += PERIOD_S
    one = limit.admit("a")
    assert one is not None
    assert (one.times, one.last, str(one)) == (301, False, " (301 times so far)")


def test_the_first_line_says_nothing_more_and_the_last_one_that_others_follow() -> None:
    limit = LogLimit(lambda: 0.0)
    texts = [str(limit.admit("a")) for _ in range(LINES)]
    assert texts[0] == ""
    assert texts[-1] == f" ({LINES} times so far, more are not logged for up to 60 s)"


def test_causes_do_not_grow_without_limit() -> None:
    limit = LogLimit(lambda: 0.0)
    for number in range(3 * MAX_CAUSES):
        assert limit.admit(number) is not None
    assert len(limit._causes) <= MAX_CAUSES
