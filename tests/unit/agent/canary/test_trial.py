from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ccplane.agent.canary.assignment import Share
from ccplane.agent.canary.trial import KEPT, Fared, Trial, compared, reported_worse
from tests.unit.agent.fakes import FakeInfo, FakeStats

SECOND_US = 1_000_000


class Server:
    """Short, heavy-tailed flows on a server with varying load, which affects all of them."""

    def __init__(
        self, seed: int, *, goodput: float = 1.0, rtt: float = 1.0, loss: float = 0.0, share: float = 0.05
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.trial = Trial("mine", Share(share), 60.0, 0.0, seed)
        self.harm = (goodput, rtt, loss)
        self.flows: dict[int, tuple[float, float, float, float, bool]] = {}
        self.load = 1.0
        self.n = 0
        self.now_s = 0.0

    def totals(self, flow_id: int) -> FakeStats:
        since_s, rate, rtt_us, loss, _ = self.flows[flow_id]
        acked = rate * (self.now_s - since_s)
        pkts = max(1, round(acked / 1448))
        return replace(
            FakeStats(flow_id),
            bytes_acked=round(acked),
            srtt_us=round(rtt_us),
            delivered_pkts=pkts,
            lost_pkts=round(loss * pkts),
            now_us=round(1e6 * self.now_s),
        )

    def second(self, n_new: int = 20) -> str:
        """Advance by a second; return why the new version is worse."""
        self.load = float(np.clip(self.load * self.rng.lognormal(0, 0.3), 0.2, 5))
        for _ in range(n_new):
            self.n += 1
            info = FakeInfo(self.n, created_us=round(1e6 * self.now_s))
            new = self.trial.takes(info)
            goodput, rtt, loss = self.harm if new else (1.0, 1.0, 0.0)
            rate = 1e6 * self.load * goodput * float(self.rng.lognormal(0, 1))
            rtt_us = 20_000 * rtt * float(self.rng.lognormal(0, 0.3)) / self.load
            lost = loss + 0.01 * float(self.rng.exponential())
            self.flows[self.n] = (self.now_s, rate, rtt_us, lost, new)
        self.now_s += 1
        for flow_id in [one for one in self.flows if self.rng.random() < 0.2]:
            self.trial.closed(flow_id, self.totals(flow_id))
            del self.flows[flow_id]
        return self.trial.look(self.totals, self.now_s).worse if self.trial.due(self.now_s) else ""

    def judged(self) -> tuple[float, str]:
        """Run the trial to its end; returns when and why it was taken back."""
        while not self.trial.over(self.now_s):
            if why := self.second():
                return self.now_s, why
        return self.now_s, ""


def test_a_version_against_itself_is_hardly_ever_taken_back() -> None:
    """Of a hundred trials of an identical version, at most one may be a false alarm."""
    assert sum(bool(Server(seed).judged()[1]) for seed in range(100)) <= 1


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ({"goodput": 1e-3}, "goodput"),
        ({"goodput": 1e3}, "too aggressive"),
        ({"rtt": 8.0}, "RTT"),
        ({"loss": 0.3}, "loss"),
    ],
)
def test_a_wrong_unit_is_found_within_ten_seconds(harm: dict[str, float], said: str) -> None:
    for seed in range(10):
        after_s, why = Server(seed, **harm).judged()
        assert said in why
        assert after_s <= 10


def test_what_differs_by_less_than_the_margin_is_no_reason() -> None:
    new = [Fared(97.0 + n / 1000, 20_000.0, 0.01) for n in range(500)]
    old = [Fared(100.0 + n / 1000, 20_000.0, 0.01) for n in range(500)]
    figures = compared(new, old)
    assert figures["goodput"].p < 1e-9
    assert reported_worse(figures, 0.001) == ""


def test_a_flow_that_stalls_counts_by_its_age_and_not_by_its_last_ack() -> None:
    trial = Trial("mine", Share(0.5), 60.0, 0.0, seed=1)
    for n in range(20):
        trial.takes(FakeInfo(n, created_us=0))
    stalled = replace(FakeStats(1), bytes_acked=1000, now_us=1000)
    trial.look(lambda flow_id: stalled, 10.0)
    assert trial.last.figures["goodput"].old == 100


def test_flows_that_are_too_young_or_too_few_are_not_compared() -> None:
    trial = Trial("mine", Share(0.5), 60.0, 0.0, seed=1)
    for n in range(20):
        trial.takes(FakeInfo(n, created_us=SECOND_US))
    assert trial.look(FakeStats, 1.1).flows == 0
    assert trial.looks == 0
    assert trial.look(FakeStats, 2.0).flows > 3
    assert trial.looks == 1


def test_looks_become_rarer_and_the_end_is_one() -> None:
    trial, looks, now_s = Trial("mine", Share(0.5), 60.0, 0.0), [], 0.0
    while not trial.over(now_s):
        now_s += 0.1
        if trial.due(now_s):
            trial.look(FakeStats, now_s)
            looks.append(now_s)
    assert looks[:4] == pytest.approx([1, 2, 3, 4], abs=0.2)
    assert 12 <= len(looks) <= 20
    assert looks[-1] == pytest.approx(60, abs=0.2)


def test_of_very_many_flows_the_youngest_are_compared() -> None:
    trial = Trial("mine", Share(0.5), 60.0, 0.0, seed=1)
    for n in range(5 * KEPT):
        trial.takes(FakeInfo(n, created_us=n))
    asked: list[int] = []
    trial.look(lambda flow_id: asked.append(flow_id) or FakeStats(flow_id), 2.0)
    assert len(asked) == 2 * KEPT
    assert min(asked) > KEPT / 2
    assert (trial.last.flows, trial.last.with_flows) == (KEPT, KEPT)


def test_what_is_kept_of_closed_flows_is_bounded() -> None:
    trial = Trial("mine", Share(0.5), 60.0, 0.0, seed=1)
    for n in range(5 * KEPT):
        trial.takes(FakeInfo(n))
        trial.closed(n, FakeStats(n))
    assert len(trial.new.closed) == len(trial.old.closed) == KEPT
    assert not trial.new.living
    assert trial.new.flows + trial.old.flows == 5 * KEPT
