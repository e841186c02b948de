import pytest

from ccp_algs.errors import FoldError
from ccp_algs.fold import INFINITY, Ack, Cwnd, Flow, Rate, distance, every, max_, min_
from ccp_algs.fold.expressions import Expr


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Cwnd + 1, "(+ Cwnd 1)"),
        (1 + Cwnd, "(+ 1 Cwnd)"),
        (Cwnd * 7 // 10, "(/ (* Cwnd 7) 10)"),
        (7 * Cwnd, "(* 7 Cwnd)"),
        (Cwnd < 5, "(< Cwnd 5)"),
        (Cwnd > Rate, "(> Cwnd Rate)"),
        (Cwnd == 5, "(== Cwnd 5)"),
        (min_(Cwnd, Rate, 3), "(min (min Cwnd Rate) 3)"),
        (max_(1, Cwnd), "(max 1 Cwnd)"),
        ((Cwnd > 1) & (Rate > 2), "(&& (> Cwnd 1) (> Rate 2))"),
        ((Cwnd > 1) | Flow.was_timeout, "(|| (> Cwnd 1) Flow.was_timeout)"),
        (every(Flow.srtt_us), "(> Micros Flow.srtt_us)"),
        (every(10_000), "(> Micros 10000)"),
        (Cwnd < INFINITY, "(< Cwnd +infinity)"),
    ],
)
def test_expression_becomes_ccp_text(expression: Expr, text: str) -> None:
    assert expression.render() == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Cwnd - Rate, "(- (max Cwnd Rate) Rate)"),
        (5 - Cwnd, "(- (max 5 Cwnd) Cwnd)"),
        (max_(Cwnd, Rate) - Rate, "(- (max Cwnd Rate) Rate)"),
        (distance(Cwnd, Rate), "(- (max Cwnd Rate) (min Cwnd Rate))"),
    ],
)
def test_difference_cannot_go_below_zero(expression: Expr, text: str) -> None:
    assert expression.render() == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Cwnd // Rate, "(/ Cwnd (max Rate 1))"),
        (Rate // Cwnd, "(/ Rate Cwnd)"),  # the window is never 0
        (Rate // Flow.mss, "(/ Rate Flow.mss)"),
        (Rate // 8, "(/ Rate 8)"),
        (Rate // (Rate + 1), "(/ Rate (+ Rate 1))"),
        (8 // Rate, "(/ 8 (max Rate 1))"),
        (Cwnd // (Rate * Cwnd), "(/ Cwnd (max (* Rate Cwnd) 1))"),
        (Cwnd // (2 * Cwnd), "(/ Cwnd (* 2 Cwnd))"),
    ],
)
def test_divisor_is_guarded_when_it_can_be_zero(expression: Expr, text: str) -> None:
    assert expression.render() == text


def test_sum_saturates_when_one_side_can_be_infinite() -> None:
    assert (Flow.snd_ssthresh + Cwnd).render() == "(+ (min Flow.snd_ssthresh (- +infinity Cwnd)) Cwnd)"
    assert (min_(Flow.snd_ssthresh, 10) + Cwnd).render() == "(+ (min Flow.snd_ssthresh 10) Cwnd)"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Cwnd >= 5, "(> Cwnd 4)"),
        (Cwnd <= 5, "(< Cwnd 6)"),
        (5 <= Cwnd, "(> Cwnd 4)"),  # noqa: SIM300
        (Cwnd >= Rate, "(== (max Rate Cwnd) Cwnd)"),
        (Cwnd <= Rate, "(== (min Rate Cwnd) Cwnd)"),
        (Cwnd <= Rate + 1, "(== (min (+ Rate 1) Cwnd) Cwnd)"),
        (Cwnd + 1 >= Rate, "(== (min (+ Cwnd 1) Rate) Rate)"),
        (Cwnd + 1 <= Rate + 2, "(< (+ Cwnd 1) (+ (+ Rate 2) 1))"),
        (Cwnd + 1 >= Rate + 2, "(> (+ (+ Cwnd 1) 1) (+ Rate 2))"),
        (Cwnd >= 0, "(== (max 0 Cwnd) Cwnd)"),
        (Cwnd <= Flow.snd_ssthresh, "(== (min Flow.snd_ssthresh Cwnd) Cwnd)"),
        (Cwnd != 3, "(|| (< Cwnd 3) (> Cwnd 3))"),
    ],
)
def test_missing_comparisons_are_built_from_those_there_are(expression: Expr, text: str) -> None:
    assert expression.render() == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (~(Cwnd < 5), "(> Cwnd 4)"),
        (~(Cwnd == 5), "(|| (< Cwnd 5) (> Cwnd 5))"),
        (~((Cwnd < 5) & (Rate > 1)), "(|| (> Cwnd 4) (< Rate 2))"),
        (~((Cwnd < 5) | (Rate > 1)), "(&& (> Cwnd 4) (< Rate 2))"),
        (~~Flow.was_timeout, "Flow.was_timeout"),
    ],
)
def test_negation_is_pushed_into_comparisons(expression: Expr, text: str) -> None:
    assert expression.render() == text


def test_comparison_of_the_rtt_sample_is_false_without_a_sample() -> None:
    has_sample = "(< Flow.rtt_sample_us 4294967295)"
    assert (Flow.rtt_sample_us > 5).render() == f"(&& (> Flow.rtt_sample_us 5) {has_sample})"
    assert (~(Flow.rtt_sample_us > 5)).render() == f"(&& (< Flow.rtt_sample_us 6) {has_sample})"
    assert (Cwnd < 2 * Flow.rtt_sample_us).render() == f"(&& (< Cwnd (* 2 Flow.rtt_sample_us)) {has_sample})"


@pytest.mark.parametrize(
    ("build", "slug"),
    [
        (lambda: bool(Cwnd > 1), "fold.no_truth_value"),
        (lambda: 1 < Cwnd < 3, "fold.no_truth_value"),
        (lambda: Cwnd / 2, "fold.no_fractions"),
        (lambda: Cwnd + 0.5, "fold.not_a_number"),
        (lambda: Cwnd + (-1), "fold.not_a_number"),
        (lambda: Cwnd + True, "fold.not_a_number"),
        (lambda: Cwnd + (Rate > 1), "fold.not_a_number"),
        (lambda: (Cwnd > 1) & 1, "fold.not_a_flag"),
        (lambda: (Cwnd > 1) | Rate, "fold.not_a_flag"),
        (lambda: Flow.snd_ssthresh * 7, "fold.overflow"),
        (lambda: Cwnd // 0, "fold.division_by_zero"),
        (lambda: (Flow.was_timeout & ~Flow.app_limited).render(), "fold.negated_flag"),
        (lambda: ~every(5), "fold.negated_flag"),
        (lambda: Flow.rtt_sample_ms, "fold.unknown_primitive"),
        (lambda: Ack.nonsense, "fold.unknown_primitive"),
    ],
)
def test_error_says_what_to_do_when_an_expression_makes_no_sense(build: object, slug: str) -> None:
    with pytest.raises(FoldError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.slug == slug
    assert caught.value.fix


def test_error_of_unknown_primitive_suggests_and_says_where() -> None:
    with pytest.raises(FoldError) as caught:
        Flow.rtt_sample_ms  # noqa: B018
    assert "did you mean `Flow.rtt_sample_us`" in caught.value.fix
    assert "test_expressions.py" in caught.value.where


def test_unknown_primitive_is_an_attribute_error_when_python_probes_for_it() -> None:
    assert not hasattr(Flow, "nonsense")
