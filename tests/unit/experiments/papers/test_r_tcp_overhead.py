"""What R-TCP costs: measured once, kept as rows, and held against what the paper says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.bench import rtcp
from experiments.bench.rounds import Plan, Rounds, Tally
from experiments.bench.rtcp import Clients, Cost, Load, Pair, Sample
from experiments.papers.paper import Size, extent, findings, read_part, run_part
from experiments.papers.r_tcp import overhead as r_tcp_overhead
from experiments.papers.r_tcp.overhead import OVERHEAD

QUICK = Size(quick=True, repeats=2)


def pair(load: Load, congestion: str, cpu_quotient: float, memory_bytes: float) -> Pair:
    kernel = Sample(cpu_s_per_gb=4.0, goodput_bytes_per_s=100e6, retrans_ratio=0.3)
    ours = Sample(cpu_s_per_gb=4.0 * cpu_quotient, goodput_bytes_per_s=99e6, retrans_ratio=0.1)
    return Pair(load, congestion, kernel, ours, Cost(memory_bytes, 300.0, 0.004, 1000, 0, 0, 0, 0))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Measurements that cost nothing; rounds and connections of each."""
    asked: list[tuple[int, int]] = []

    def measure(plan: Plan, clients: Clients) -> tuple[list[Pair], Tally]:
        count, load = clients.count, clients.load
        asked.append((plan.rounds, count))
        quotients = {"cubic": 1.01, "bbr": 1.1}
        pairs = [
            pair(load, name, quotient, 1250)
            for name, quotient in quotients.items()
            for _ in range(plan.rounds)
        ]
        return pairs, Tally(plan.rounds)

    def rounds(way: str, value: float, plan: Plan) -> Rounds[float]:
        return Rounds({way: [value] * plan.rounds}, Tally(plan.rounds))

    monkeypatch.setattr(rtcp, "measure", measure)
    monkeypatch.setattr(rtcp, "core_ns", lambda plan: rounds("waiting", 6.0, plan))
    monkeypatch.setattr(rtcp, "memory_with_one_client", lambda plan, _: rounds("cubic", 250.0, plan))
    return asked


def test_it_is_measured_once_and_what_was_measured_is_kept(
    tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    before = read_part(OVERHEAD, QUICK, tmp_path)
    assert (before.done, before.planned) == (0, 1)
    assert not findings(OVERHEAD, before).tables
    assert extent(OVERHEAD, QUICK, tmp_path).missing == 1
    for _ in range(2):
        run_part(OVERHEAD, QUICK, tmp_path)
    assert asked == [(2, 1000)] * len(Load)
    left = extent(OVERHEAD, QUICK, tmp_path)
    assert (left.planned, left.missing, left.estimate_s) == (1, 0, 0)
    after = read_part(OVERHEAD, QUICK, tmp_path)
    assert (after.done, after.planned) == (1, 1)
    assert len(after.table) == 2 * 4 + 2 + 2
    assert extent(OVERHEAD, Size(), tmp_path).missing == 1, "the whole is another measurement"


def test_findings_say_what_holds(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    run_part(OVERHEAD, QUICK, tmp_path)
    found = findings(OVERHEAD, read_part(OVERHEAD, QUICK, tmp_path))
    assert {check.name: check.found.value for check in found.checks} == pytest.approx(
        {"cpu, cubic": 1.01, "cpu, bbr": 1.1, "memory": 10.0}
    )
    assert {check.verdict for check in found.checks} == {"undecided"}, "too few runs"
    cpu, reached, memory, shared, detector = (table.rows for table in found.tables)
    assert set(zip(cpu["load"], cpu["congestion"], strict=True)) == {
        (str(load), name) for load in Load for name in ("cubic", "bbr")
    }
    assert (reached["rtcp_retrans_pct"] == 10).all()
    assert (memory["memory_bytes"] == 1250).all()
    assert list(shared["memory_bytes"]) == [250]
    assert list(detector["ack_ns"]) == [6]
    assert list(found.figures) == ["overhead"]


def test_rows_are_plain_data(asked: list[tuple[int, int]]) -> None:
    rows: list[dict[str, Any]] = json.loads(json.dumps(r_tcp_overhead.rows(QUICK)))
    assert {row["what"] for row in rows} == {"load", "detector", "one client"}
