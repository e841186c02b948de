from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccplane.agent.audit import Audit, AuditLog
from ccplane.agent.canary.assignment import Share
from ccplane.agent.canary.canaries import Canaries
from ccplane.agent.changes import Which
from ccplane.agent.source import Source
from ccplane.base.errors import CcpError, UsageError
from tests.unit.agent.fakes import FakeClosed, FakeCreated, FakeInfo, FakeReport, FakeStats
from tests.unit.agent.live import Edited, edited, text

FIRST = text("""
    beta = Param(0.5, min=0.1, max=0.9)

    def on_create(self, info):
        self.n = 0
        self.flow.set(cwnd_bytes=20_000)

    def on_report(self, report):
        self.n += 1
        self.flow.set(cwnd_bytes=10_000 + self.n)
""")
SECOND = FIRST.replace("10_000", "50_000")
RAISES = FIRST.replace("self.n += 1", "self.n += 1 // (report.acked - 77_777)")


class Tried:
    """An agent with an algorithm, the test's clock, and flows with given performance."""

    def __init__(self, live: Edited) -> None:
        self.live = live
        self.now_s = 0.0
        self.goodput: Callable[[str], float] = lambda algorithm: 1e6
        self.canaries = Canaries(live.agent_loop, live.loader, lambda: self.now_s)
        live.datapath.stats = self.stats  # type: ignore[method-assign]
        self.made = 0

    def stats(self, flow_id: int) -> FakeStats | None:
        live = self.live.agent_loop.flows.get(flow_id)
        if live is None:
            return None
        age_s = self.now_s - live.flow.info.created_us / 1e6
        acked = round(age_s * self.goodput(live.host.name) * (1 + flow_id % 7 / 10))
        return replace(FakeStats(flow_id), bytes_acked=acked, delivered_pkts=1 + acked // 1448)

    def start(self, source: str = SECOND, share: str = "50%", seconds: float = 60) -> dict[str, Any]:
        return self.live.do(
            lambda: self.canaries.start(
                Source(source, str(self.live.file)), Share.from_text(share), seconds, "mine"
            )
        )

    def flows(self, n: int = 60) -> None:
        ids = range(self.made + 100, self.made + 100 + n)
        self.made += n
        self.live.feed(*(FakeCreated(FakeInfo(one, created_us=round(1e6 * self.now_s))) for one in ids))

    def passes(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 0.5
            self.live.agent_loop.turn(0)

    def ended(self) -> dict[str, Any]:
        self.live.do(lambda: None)  # what was given to the loader is done
        self.live.agent_loop.turn(0)
        return self.canaries.ended["mine"]

    def hosts(self) -> set[str]:
        return {live.host.name for live in self.live.agent_loop.flows.values()}


@pytest.fixture
def tried(tmp_path: Path) -> Iterator[Tried]:
    with edited(tmp_path / "mine.py", FIRST, 1, 2) as live:
        yield Tried(live)


def test_some_new_flows_get_it_and_old_ones_stay(tried: Tried) -> None:
    row = tried.start()
    assert row["old_sha256"] != row["new_sha256"]
    assert tried.hosts() == {"mine"}
    tried.flows()
    names = [live.host.name for live in tried.live.agent_loop.flows.values()]
    assert 15 < names.count("mine@canary") < 45
    assert {tried.live.agent_loop.flows[one].host.name for one in (1, 2)} == {"mine"}
    (row,) = tried.canaries.rows()
    assert row["outcome"] is None
    assert row["flows"] + row["other_flows"] == 60


def test_one_that_fares_no_worse_takes_over(tried: Tried) -> None:
    tried.start()
    tried.flows()
    tried.passes(61)
    row = tried.ended()
    assert row["outcome"] == "widened"
    assert tried.hosts() == {"mine"}
    assert list(tried.live.agent_loop.hosts) == ["mine"]
    assert tried.live.agent_loop.hosts["mine"].version.text == SECOND
    tried.live.report(1, acked=1)
    assert tried.live.datapath.written[-1].cwnd_bytes == 50_001
    assert len(tried.live.datapath.installed) == 1
    assert [event.kind for event in tried.live.events if event.kind.startswith("canary")] == [
        "canary:started",
        "canary:widened",
    ]


def test_one_that_fares_worse_is_taken_back(tried: Tried) -> None:
    modules = set(sys.modules)
    tried.goodput = lambda algorithm: 1e3 if algorithm == "mine@canary" else 1e6
    tried.start()
    tried.flows()
    tried.passes(2)
    row = tried.ended()
    assert row["outcome"] == "taken back"
    assert row["why"].startswith("goodput 0.0")
    assert row["age_s"] <= 2
    assert tried.hosts() == {"mine"}
    assert list(tried.live.agent_loop.hosts) == ["mine"]
    assert tried.live.agent_loop.hosts["mine"].version.text == FIRST
    assert len(tried.live.datapath.installed) == 1
    assert set(sys.modules) <= modules


def test_an_exception_ends_it_at_once(tried: Tried) -> None:
    tried.start(RAISES)
    tried.flows()
    new = next(live for live in tried.live.agent_loop.flows.values() if live.host.name == "mine@canary")
    tried.live.feed(FakeReport(new.flow.info.flow_id, new.flow.handle, acked=77_777))
    tried.live.agent_loop.turn(0)
    row = tried.ended()
    assert row["outcome"] == "taken back"
    assert "on_report raised ZeroDivisionError" in row["why"]
    assert f"({tried.live.file}:" in row["why"]
    assert not any(live.failed for live in tried.live.agent_loop.flows.values())


def test_too_few_flows_leave_the_old_version(tried: Tried) -> None:
    tried.start(seconds=10)
    tried.flows(8)
    tried.passes(11)
    row = tried.ended()
    assert row["outcome"] == "taken back"
    assert row["why"].startswith("undecided: ")


def test_flows_that_closed_count(tried: Tried) -> None:
    tried.goodput = lambda algorithm: 1e3 if algorithm == "mine@canary" else 1e6
    tried.start()
    tried.flows()
    tried.now_s = 0.4
    for flow_id in list(tried.live.agent_loop.flows):
        if flow_id >= 100:
            stats = tried.stats(flow_id)
            assert stats is not None
            tried.live.feed(FakeClosed(flow_id, replace(stats, now_us=400_000)))
    tried.passes(2)
    assert tried.ended()["outcome"] == "taken back"


def test_one_at_a_time_and_no_reload_meanwhile(tried: Tried) -> None:
    tried.start()
    for again in (
        tried.start,
        lambda: tried.live.save(SECOND),
        lambda: tried.live.load(SECOND, "mine"),
        lambda: tried.live.load(SECOND),  # it names itself
    ):
        with pytest.raises(UsageError) as caught:
            again()
        assert caught.value.slug == "canary.runs"


def test_it_ends_by_hand(tried: Tried) -> None:
    for do in (tried.canaries.widen, tried.canaries.take_back):
        with pytest.raises(UsageError) as caught:
            do("mine")
        assert caught.value.slug == "canary.none"
    tried.start()
    assert tried.canaries.take_back("mine")["why"] == "requested"
    tried.start()
    tried.canaries.widen("mine")
    assert tried.ended()["outcome"] == "widened"
    assert tried.live.agent_loop.hosts["mine"].version.text == SECOND


def test_what_was_set_holds_for_the_new_version(tried: Tried) -> None:
    tried.live.agent_loop.changes.set_params({"beta": 0.7}, Which())
    tried.start()
    assert tried.live.agent_loop.hosts["mine@canary"].algorithm().beta == 0.7  # type: ignore[attr-defined]


def test_a_broken_one_never_begins(tried: Tried) -> None:
    with pytest.raises(CcpError):
        tried.start(FIRST.replace("self.n += 1", "self.n +="))
    with pytest.raises(UsageError) as caught:
        tried.live.do(lambda: tried.canaries.start(Source(SECOND, "<cell>"), Share(0.05), name="another"))
    assert caught.value.slug == "algorithm.unknown"
    assert tried.canaries.rows() == []
    assert list(tried.live.agent_loop.hosts) == ["mine"]


def test_flows_that_do_not_match_take_no_part(tried: Tried) -> None:
    row = tried.start(share="dport=80")
    tried.flows()
    assert row["share"] == "50 % of new flows that match dport=80"
    assert tried.hosts() == {"mine"}
    assert tried.canaries.rows()[0]["other_flows"] == 0


def test_the_version_before_comes_back_and_flows_start_afresh(tried: Tried) -> None:
    tried.live.report(1, acked=1)
    tried.live.save(SECOND)
    tried.live.report(1, acked=1)
    done = tried.live.do(lambda: tried.live.loader.rollback("mine"))
    assert done.flows == 2
    assert tried.live.agent_loop.hosts["mine"].version.text == FIRST
    tried.live.report(1, acked=1)
    assert tried.live.datapath.written[-1].cwnd_bytes == 10_001
    with pytest.raises(UsageError) as caught:
        tried.live.do(lambda: tried.live.loader.rollback("mine"))
    assert caught.value.slug == "rollback.nothing"


def test_it_goes_back_further(tried: Tried) -> None:
    versions = [FIRST.replace("10_000", f"{n}0_000") for n in range(1, 9)]
    for source in versions[1:]:
        tried.live.save(source)
    for source in reversed(versions[2:7]):
        tried.live.do(lambda: tried.live.loader.rollback("mine"))
        assert tried.live.agent_loop.hosts["mine"].version.text == source
    with pytest.raises(UsageError):
        tried.live.do(lambda: tried.live.loader.rollback("mine"))


def test_modules_alongside_it_come_back_as_they_were(tried: Tried) -> None:
    (tried.live.file.parent / "helper.py").write_text("MORE = 1\n")
    head = FIRST.replace("from ccp_algs", "import helper\nfrom ccp_algs", 1)
    tried.live.save(head.replace("10_000", "helper.MORE"))
    (tried.live.file.parent / "helper.py").write_text("MORE = 1000\n")
    tried.live.save(head.replace("10_000", "helper.MORE + 1"))
    tried.live.do(lambda: tried.live.loader.rollback("mine"))
    tried.live.report(1, acked=1)
    assert tried.live.datapath.written[-1].cwnd_bytes == 2


def test_how_a_trial_ended_is_written_down(tried: Tried, tmp_path: Path) -> None:
    audit = Audit(AuditLog(tmp_path / "audit"), tried.live.agent_loop)
    tried.start()
    tried.canaries.take_back("mine")
    audit.tried(tried.live.events[-1])
    line = json.loads((tmp_path / "audit").read_text())
    assert (line["who"], line["what"]) == ({"trial": True}, "canary:taken_back")
    assert line["about"] == {"algorithm": "mine", "why": "requested"}
