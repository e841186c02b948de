"""Candidate buckets, against the paper's formulas."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.rtcp.candidates import Candidates
from ccp_algs.rtcp.options import Options
from ccplane.base.errors import ParamError

OPTIONS = Options()
S = 1_000_000

acks = st.lists(st.tuples(st.integers(1, 2 * S), st.integers(0, 300_000)), min_size=1, max_size=40)
"""ACKs: time since the one before [us], bytes that it adds."""


def tuples(candidates: Candidates) -> list[tuple[int, int]]:
    return [(one.bucket_bytes, one.rate_bytes_per_s) for one in candidates._all]


def test_sizes_are_zero_and_those_that_leave_an_abrupt_reduction() -> None:
    # Appendix F: B_l = 8000 (1 - 0.6) = 3200, step 4800 / 8 = 600; B_l itself is none.
    candidates = Candidates(8000, S, OPTIONS)
    assert [bucket for bucket, _ in tuples(candidates)] == [0, *range(3800, 8001, 600)]
    assert [rate for _, rate in tuples(candidates)] == [8000, *range(4200, -1, -600)]


def test_with_another_theta_and_omega_as_the_authors_code_has_them() -> None:
    candidates = Candidates(25_600, S, Options(reduction_ratio=150 / 256, n_candidates=5))
    assert [bucket for bucket, _ in tuples(candidates)] == [0, 14_350, 18_100, 21_850, 25_600]


def test_rates_are_the_lowest_that_no_ack_contradicts() -> None:
    candidates = Candidates(8000, S, OPTIONS)
    candidates.update(8300, 2 * S)
    # Equation 10: (8300 - b) / 2 s where that is more than before: for b = 8000 only.
    assert [rate for _, rate in tuples(candidates)] == [8000, *range(4200, 0, -600), 150]


def test_the_line_closest_above_is_chosen() -> None:
    # Areas between C(t) = b + r t and A(t) up to t differ by those below C(t): t (b + r t / 2).
    candidates = Candidates(8000, S, OPTIONS)
    candidates.update(8300, 3 * S // 2)
    assert candidates.best == (0, 8000)
    candidates.update(8600, 4 * S)
    assert candidates.best == (8000, 200)


def test_the_range_moves_up_while_the_largest_bucket_fits_best() -> None:
    candidates = Candidates(8000, S, OPTIONS)
    candidates.update(80_000, 2 * S)
    for t_s in range(3, 40):
        candidates.update(80_000 + 100 * t_s, t_s * S)
    buckets = [bucket for bucket, _ in tuples(candidates)]
    assert len(buckets) == 9
    assert buckets[0] > 3800
    assert candidates.best.bucket_bytes > 8000


def test_no_bucket_is_larger_than_what_was_delivered_and_a_step() -> None:
    candidates = Candidates(8000, S, OPTIONS)
    for t_s in range(2, 100):
        candidates.update(8000, t_s * S)
    assert [bucket for bucket, _ in tuples(candidates)][-1] == 8000


def test_the_line_goes_through_the_corners_on_either_side_of_half_the_time() -> None:
    # 8000 in a second, then 50 a second: no candidate has a bucket of 7950.
    candidates = Candidates(8000, S, OPTIONS)
    for t_s in range(2, 9):
        candidates.update(7950 + 50 * t_s, t_s * S)
    assert candidates.best == (8000, 44)
    assert candidates.line == (7950, 50)


def test_without_a_corner_before_half_the_time_the_best_candidate_is_the_line() -> None:
    candidates = Candidates(8000, S, OPTIONS)
    candidates.update(8300, 3 * S // 2)
    assert candidates.line == candidates.best == (0, 8000)


@given(first=st.tuples(st.integers(1000, 5 * S), st.integers(1448, 10**7)), acks=acks)
def test_invariants(first: tuple[int, int], acks: list[tuple[int, int]]) -> None:
    t_us, delivered_bytes = first
    candidates = Candidates(delivered_bytes, t_us, OPTIONS)
    before: dict[int, int] = {}
    for gap_us, added_bytes in acks:
        t_us, delivered_bytes = t_us + gap_us, delivered_bytes + added_bytes
        candidates.update(delivered_bytes, t_us)
        now = tuples(candidates)
        assert len(now) == OPTIONS.n_candidates
        assert [bucket for bucket, _ in now] == sorted(bucket for bucket, _ in now)
        for bucket, rate in now:
            assert rate >= before.get(bucket, 0)
            # Equation 4 at this ACK.
            assert bucket + rate * t_us / S >= delivered_bytes
        steeper, *_, flatter = now[max(0, now.index(candidates.best) - 1) :][:3]
        assert flatter[1] <= candidates.line.rate_bytes_per_s <= steeper[1]
        assert 0 <= candidates.line.bucket_bytes <= delivered_bytes + candidates.step_bytes
        before = dict(now)
        assert candidates.best in now


rates = st.floats(0, 1e8)


@given(
    small=st.floats(0, 1e7), more=st.floats(1, 1e7), rates=st.tuples(rates, rates), t_s=st.floats(0.001, 100)
)
def test_comparing_heights_is_theorem_1(
    small: float, more: float, rates: tuple[float, float], t_s: float
) -> None:
    high, low = max(rates), min(rates)
    if high - low < 1e-3:
        return
    crossing_s = more / (high - low)  # equation 11
    if abs(t_s - 2 * crossing_s) > 1e-6 * t_s:
        height, other = small + high * t_s / 2, small + more + low * t_s / 2
        assert (height < other) == (t_s < 2 * crossing_s) or math.isclose(height, other)


@given(acks=acks)
def test_where_the_history_is_whole_the_first_that_is_no_better_ends_the_search(
    acks: list[tuple[int, int]],
) -> None:
    # Theorem 2, of which neither the extended range nor the bound of rates is a part.
    t_us, delivered_bytes = 1000, 10**6
    candidates = Candidates(delivered_bytes, t_us, OPTIONS)
    for gap_us, added_bytes in acks:
        t_us, delivered_bytes = t_us + gap_us, min(delivered_bytes + added_bytes, 10**6)
        candidates.update(delivered_bytes, t_us)
        heights = [bucket + rate * t_us / S / 2 for bucket, rate in tuples(candidates)]
        chosen = candidates.best.bucket_bytes + candidates.best.rate_bytes_per_s * t_us / S / 2
        assert chosen == pytest.approx(min(heights), rel=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_candidates": 2},
        {"n_candidates": 18},
        {"excess_rates": 1e6},
        {"loss_ratio": 1.5},
        {"reduction_ratio": math.nan},
        {"tolerance_ratio": -0.1},
        {"loss_window_min_rtts": math.inf},
    ],
)
def test_parameters_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParamError) as caught:
        Options(**wrong)  # type: ignore[arg-type]
    assert caught.value.slug == "param.out_of_range"
    assert caught.value.where == next(iter(wrong))
