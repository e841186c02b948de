"""What a soak draws: the same again from the same seed, all kinds, and agents that live for some rounds."""

from __future__ import annotations

from itertools import islice

from experiments.soak.draw import LASTING, REPLACING, ROUNDS_OF_AN_AGENT, rounds


def test_the_same_seed_draws_the_same() -> None:
    drawn = list(islice(rounds(7, clock=True), 50))
    assert drawn == list(islice(rounds(7, clock=True), 50))
    assert drawn != list(islice(rounds(8, clock=True), 50))


def test_every_kind_comes_and_the_clock_only_where_it_may_be_stepped() -> None:
    kinds = [one.kind for drawn in islice(rounds(1, clock=True), 400) for one in drawn]
    assert set(kinds) == {*LASTING, *REPLACING}
    kinds = [one.kind for drawn in islice(rounds(1, clock=False), 400) for one in drawn]
    assert set(kinds) == {*LASTING, *REPLACING} - {"clock steps"}


def test_an_agent_lives_for_some_rounds() -> None:
    for number, drawn in enumerate(islice(rounds(3, clock=True), 100), 1):
        replaced = [one for one in drawn if one.kind in REPLACING]
        assert len(replaced) == (1 if number % ROUNDS_OF_AN_AGENT == 0 else 0)
