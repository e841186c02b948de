from __future__ import annotations

from itertools import islice

from experiments.soak.draw import CALM, KILLING, LASTING, REPLACING, RESTLESS, ROUNDS_OF_AN_AGENT, rounds


def test_the_same_seed_draws_the_same() -> None:
    drawn = list(islice(rounds(7, clock=True), 50))
    assert drawn == list(islice(rounds(7, clock=True), 50))
    assert drawn != list(islice(rounds(8, clock=True), 50))


def test_every_kind_comes_and_the_clock_only_where_it_may_be_stepped() -> None:
    kinds = [one.kind for drawn in islice(rounds(1, clock=True), 400) for one in drawn]
    assert set(kinds) == {*LASTING, *REPLACING}
    kinds = [one.kind for drawn in islice(rounds(1, clock=False), 400) for one in drawn]
    assert set(kinds) == {*LASTING, *REPLACING} - {"clock steps"}


def test_programs_are_replaced_in_restless_rounds_and_live_through_the_calm_ones() -> None:
    for number, drawn in enumerate(islice(rounds(3, clock=True), 200)):
        at = number % (RESTLESS + CALM) + 1
        kinds = {one.kind for one in drawn}
        replaces = at <= RESTLESS and at % ROUNDS_OF_AN_AGENT == 0
        assert len(kinds & set(REPLACING)) == replaces
        assert at <= RESTLESS or not kinds & KILLING
