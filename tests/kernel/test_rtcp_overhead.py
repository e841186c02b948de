"""R-TCP's overhead with few connections: every figure is measured, every connection's client is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.bench import flows
from experiments.papers.paper import Size, extent, findings, read_part, run_part
from experiments.papers.r_tcp import overhead
from experiments.papers.r_tcp.overhead import CONNECTIONS, OVERHEAD, OWN

QUICK = Size(quick=True, repeats=1)
COUNT = CONNECTIONS // 8

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("any_load")]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "SECONDS", 1.0)
    monkeypatch.setattr(overhead, "CORE_ACKS", 10_000)


def test_it_is_measured_once_and_says_what_holds(tmp_path: Path) -> None:
    before = read_part(OVERHEAD, QUICK, tmp_path)
    assert (before.done, before.planned) == (0, 1)
    assert not findings(OVERHEAD, before).tables
    run_part(OVERHEAD, QUICK, tmp_path)
    assert extent(OVERHEAD, QUICK, tmp_path).missing == 0
    assert extent(OVERHEAD, Size(), tmp_path).missing == 1, "the whole is another measurement"
    runs = read_part(OVERHEAD, QUICK, tmp_path)
    found = findings(OVERHEAD, runs)
    assert {check.name for check in found.checks} == {"cpu, cubic", "cpu, bbr", "memory"}
    assert {check.verdict for check in found.checks} == {"undecided"}, "too few runs"
    table = runs.table
    loads = table[table["what"] == "load"]
    assert list(loads["congestion"]) == list(OWN)
    assert (loads["clients"] == COUNT).all()
    assert (loads["limited"] == 0).all()
    assert (loads["cpu_quotient"] > 0).all()
    assert loads["ack_ns"].between(20, 100_000).all()
    assert loads["rtcp_share_pct"].between(0, 100, inclusive="neither").all()
    # Each client has a detector of nine candidates and counters.
    assert loads["memory_bytes"].between(500, 10_000).all()
    shared = table.loc[table["what"] == "one client", "memory_bytes"]
    assert (shared < loads["memory_bytes"].min() - 500).all()
    detector = table[table["what"] == "detector"].set_index("state")["ack_ns"]
    assert detector["waiting"] < detector["limited"]
