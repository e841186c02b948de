"""The simulator beside ns-3: what ns-3 is told, what its answers come to, and how it fails."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ccplane.base.errors import LoadError
from experiments import run as runs
from experiments.bench import ns3_peer, ns3_process
from experiments.bench.cli import app
from experiments.bench.errors import BenchError
from experiments.bench.ns3_process import Ns3
from experiments.bench.rounds import Plan
from experiments.validation.cases import in_round
from tests.unit.experiments.recorded import record

ANSWER: dict[str, Any] = {
    "cpu_s": 2.0,
    "flows": [
        {"received_bytes": 2_500_000, "retrans_pkts": 3, "rtts_us": [40_000.0, 50_000.0, 60_000.0]},
        {"received_bytes": 9_000_000, "retrans_pkts": 4, "rtts_us": [60_000.0]},
    ],
}


ECHO = "import sys, json\nfor line in sys.stdin: print(json.dumps({'got': json.loads(line)}), flush=True)"
FAILS = "import sys; sys.stdin.readline(); sys.exit('a line\\nno such attribute')"


def stand_in(code: str, timeout_s: float = 60.0) -> Ns3:
    return Ns3((sys.executable, "-c", code), timeout_s)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ns3_process, "find_spec", lambda name: name)


def test_ns3_is_told_the_same_scenario() -> None:
    plan = ns3_peer.plan_of(in_round(ns3_peer.CASES["cubic-bbr-20"], 2))
    starts_s = [flow.pop("start_s") for flow in plan["flows"]]
    assert plan == {
        "rate_bytes_per_s": 2.5e6,
        "delay_us": 20_000.0,
        "buffer_pkts": 133,
        "mark_pkts": 0,
        "duration_s": 10.0,
        "sample_s": 0.02,
        "seed": 2,
        "flows": [{"algorithm": "ns3::TcpCubic"}, {"algorithm": "ns3::TcpBbr"}],
    }
    assert 0 <= starts_s[0] < 1 <= starts_s[1]
    assert ns3_peer.plan_of(ns3_peer.CASES["dctcp-100"])["mark_pkts"] == 20


@pytest.mark.parametrize("name", ns3_peer.CASES)
def test_a_scenario_can_be_run_on_each_side(name: str) -> None:
    scenario = ns3_peer.CASES[name]
    for datapath in ("ebpf", "sim"):
        scenario.replace(datapath=datapath).validate()
    ns3_peer.plan_of(scenario)


def test_figures_of_ns3_are_as_those_of_a_run() -> None:
    plan = ns3_peer.plan_of(ns3_peer.CASES["two-cubic-20"])
    assert ns3_peer.figures_of(plan, ANSWER) == pytest.approx(
        {"simulated_ratio": 5.0, "goodput": 10.0, "rtt_p50": 55.0, "rtt_p95": 59.5, "retrans": 7.0}
    )


def test_without_ns3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ns3_process, "find_spec", lambda name: None)
    with pytest.raises(LoadError) as caught, Ns3():
        pass
    assert caught.value.slug == "load.no_extra"
    assert caught.value.fix.endswith("pip install 'ccplane[ns3]'")


def test_one_process_answers_plan_after_plan(there: None) -> None:
    with stand_in(ECHO) as ns3:
        assert [ns3.run({"seed": seed}) for seed in (1, 2)] == [{"got": {"seed": 1}}, {"got": {"seed": 2}}]


def test_a_run_of_ns3_that_fails_says_why(there: None) -> None:
    with stand_in(FAILS) as ns3:
        for _ in range(2):
            with pytest.raises(BenchError) as caught:
                ns3.run({})
            assert caught.value.slug == "bench.peer_failed"
            assert "no such attribute" in caught.value.why


def test_a_run_of_ns3_that_does_not_end_is_ended(there: None) -> None:
    with stand_in("import time; time.sleep(60)", 0.1) as ns3, pytest.raises(BenchError) as caught:
        ns3.run({})
    assert caught.value.slug == "bench.peer_failed"
    assert "more than 0.1 s" in caught.value.why


def test_both_simulators_are_measured_in_each_round(there: None, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str, int]] = []

    def measured(side: str, scenario: Any, ns3: Any) -> dict[str, float] | None:
        told.append((side, scenario.name, scenario.seed))
        if side == "kernel" and scenario.seed == 2 and len(told) <= 6:
            return None
        found = dict.fromkeys(ns3_peer.FIGURES, 1.0)
        return found if side == "kernel" else {"simulated_ratio": 3.0} | found

    monkeypatch.setattr(ns3_peer, "CASES", {"reno-20": ns3_peer.CASES["reno-20"]})
    monkeypatch.setattr(ns3_peer, "measured", measured)
    monkeypatch.setattr(ns3_peer, "Ns3", lambda: stand_in(ECHO))
    result = ns3_peer.run(Plan(2, 12), beside_kernel=True)
    sides = ["kernel", "ccplane", "ns3", "kernel", "kernel", "kernel", "kernel", "ccplane", "ns3"]
    assert told == [(side, "reno-20", 1 if at < 3 else 2) for at, side in enumerate(sides)]
    assert result.metrics["goodput.reno-20.kernel"].values == (1.0, 1.0)
    assert result.metrics["goodput.reno-20.ns3"].values == (1.0, 1.0)
    assert result.metrics["simulated_ratio.reno-20.ccplane"].values == (3.0, 3.0)
    assert (result.rounds["sim-ns3"].counted, result.rounds["sim-ns3"].disturbed) == (2, 3)


def test_a_kernel_whose_runs_never_count_is_not_asked_for_ever(
    there: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def measured(side: str, scenario: Any, ns3: Any) -> dict[str, float] | None:
        told.append(side)
        return None if side == "kernel" else dict.fromkeys(("simulated_ratio", *ns3_peer.FIGURES), 1.0)

    monkeypatch.setattr(ns3_peer, "CASES", {"reno-20": ns3_peer.CASES["reno-20"]})
    monkeypatch.setattr(ns3_peer, "measured", measured)
    monkeypatch.setattr(ns3_peer, "Ns3", lambda: stand_in(ECHO))
    result = ns3_peer.run(Plan(2, 2), beside_kernel=True)
    assert told == ["kernel"] * 3 + ["ccplane", "ns3", "kernel", "ccplane", "ns3"]
    assert "goodput.reno-20.kernel" not in result.metrics


def test_ours_is_measured_as_a_whole_run() -> None:
    scenario = ns3_peer.CASES["reno-20"].replace(duration_s=2.0)
    found = ns3_peer.measured("ccplane", scenario, Ns3())
    assert found is not None
    assert found["simulated_ratio"] > 1
    assert 10 < found["goodput"] < 20
    assert found["rtt_p50"] >= 40


def test_the_kernel_has_its_own_congestion_controls_alone(
    there: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def measured(side: str, scenario: Any, ns3: Any) -> dict[str, float]:
        told.append(side)
        return dict.fromkeys(ns3_peer.FIGURES, 1.0)

    monkeypatch.setattr(ns3_peer, "CASES", {"dctcp-100": ns3_peer.CASES["dctcp-100"]})
    monkeypatch.setattr(ns3_peer, "measured", measured)
    monkeypatch.setattr(ns3_peer, "Ns3", lambda: stand_in(ECHO))
    ns3_peer.run(Plan(1, 1), beside_kernel=True)
    assert told == ["ccplane", "ns3"]


def test_a_run_has_a_goodput_when_its_application_did_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(scenario: Any, into: Any, directory: Path, progress: Any) -> None:
        record(scenario, into, directory, progress)
        into.flows[0].traffic = None

    monkeypatch.setitem(runs.DATAPATHS, "ebpf", silent)
    found = ns3_peer.measured("kernel", ns3_peer.CASES["reno-20"], Ns3())
    assert found is not None
    assert found["goodput"] == pytest.approx(8.0, rel=0.01), "1e6 bytes/s"


@pytest.mark.parametrize("options", [["--peer", "ns2"], ["--beside-kernel"]])
def test_a_peer_must_be_known(options: list[str]) -> None:
    result = CliRunner().invoke(app, ["sim", *options])
    assert isinstance(result.exception, BenchError)
    assert result.exception.slug == "bench.bad_options"


@pytest.mark.skipif(find_spec("ns") is None, reason="ns-3 is not installed (extra `ns3`)")
def test_ns3_fills_a_link_run_after_run() -> None:
    answers: dict[str, list[Any]] = {}
    with Ns3() as ns3:
        for name in ("dctcp-100", "reno-20", "cubic-bbr-20", "reno-20"):
            plan = ns3_peer.plan_of(ns3_peer.CASES[name].replace(duration_s=4.0))
            told = ns3.run(plan)
            found = ns3_peer.figures_of(plan, told)
            rate_mbit = plan["rate_bytes_per_s"] * 8e-6
            assert 0.5 * rate_mbit < found["goodput"] < 1.5 * rate_mbit, "each flow's by its own time"
            assert found["rtt_p50"] >= 2e-3 * plan["delay_us"]
            answers.setdefault(name, []).append(told["flows"])
    first, again = answers["reno-20"]
    assert first == again, "nothing of a run is left for the next"
