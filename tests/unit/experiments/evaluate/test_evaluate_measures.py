from __future__ import annotations

import pytest

from experiments.evaluate.measures import Run, goodput
from experiments.evaluate.paths import Flow, change, flows, lineup, path, rival
from experiments.run import run
from experiments.traffic.spec import Http
from tests.unit.experiments.evaluate.made import CASES

WAY = path(20, 20)
SHORT = Http(objects=(30_000, 90_000), repeat=3, persistent=False)


@pytest.fixture(scope="module")
def two() -> Run:
    return Run(run(lineup(WAY, (*flows(1), rival()), 25)("kernel/reno")))


@pytest.fixture(scope="module")
def equals() -> Run:
    return Run(run(lineup(WAY, (*flows(1), rival()), 25)("kernel/cubic")))


def test_flows_are_distinguished_by_how_their_names_begin(two: Run) -> None:
    assert two.mbit("x") + two.mbit("c") == pytest.approx(two.mbit(""))
    assert 17 < two.mbit("", 5) < 20
    assert 20 < two.rtt_ms("x", 50, 5) < two.rtt_ms("x", 95, 5) < 42
    assert 0.5 < two.jain("", 5) <= 1
    assert 0 < two.retrans_pct("") < 2


def test_harm_is_what_is_lost_of_the_goodput_without_the_other(two: Run) -> None:
    case = CASES["next-to-cubic-1bdp"]
    alone = Run(run(lineup(WAY, (rival(),), 25)("")))
    solo = Run(run(lineup(WAY, flows(1), 25)("kernel/reno")))
    runs = {"": two, "alone": alone, "solo": solo}
    found = {what.key: what.of(runs) for what in case.measures}
    assert found["left"] == pytest.approx(two.mbit("c", 15))
    assert found["harm-done"] == pytest.approx(1 - two.mbit("c", 15) / alone.mbit("c", 15))
    assert found["harm-suffered"] == pytest.approx(1 - two.mbit("x", 15) / solo.mbit("x", 15))


def test_equal_flows_have_equal_shares(equals: Run) -> None:
    runs = {"": equals, "alone": equals, "solo": equals}
    found = {what.key: what.of(runs) for what in CASES["next-to-cubic-1bdp"].measures}
    assert found["left"] == found["own"] == pytest.approx(equals.mbit("", 15) / 2)


@pytest.mark.parametrize(("who", "share_mbit"), [("x", 5.0), ("c", 5.0), ("c", 50.0)])
def test_goodput_above_an_equal_share_is_no_merit(two: Run, who: str, share_mbit: float) -> None:
    found = goodput(who, 5, share_mbit=share_mbit).of({"": two})
    assert found == pytest.approx(min(two.mbit(who, 5), share_mbit))
    assert goodput(who, 5, link_mbit=share_mbit).of({"": two}) == pytest.approx(two.mbit(who, 5))


def test_what_was_sent_includes_what_was_lost() -> None:
    events = [change(3, loss={"kind": "bernoulli", "ratio": 1.0})]
    found = Run(run(lineup(WAY, flows(1), 6, events=events)("kernel/cubic")))
    assert 0 <= found.mbit("x", 4) < 1  # what was under way, and not unknown: a flow that starves counts
    assert 0 < found.sent_mbit("x", 3, 6) < 1
    assert found.sent_mbit("x", 3, 6) < found.sent_mbit("x", 1, 3)


def test_downloads_are_distinguished_by_their_size() -> None:
    found = Run(run(lineup(WAY, (Flow("x1", traffic=SHORT),), 10)("kernel/cubic")))
    small, large = (found.completion_ms("x", 50, size) for size in SHORT.objects)
    assert 40 < small < large < 300
    assert small <= found.completion_ms("x", 50) <= large
    assert found.completion_ms("x", 50, 1) == 10_000  # the end of the run: no download of this size ended
