"""Agents that are measured: how they are named, and that one which does not come is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import examples
from experiments.agent_process import AgentProcess
from experiments.bench.agents import Beside, Scenario, Where, named, started
from experiments.bench.datapath import SCENARIOS
from experiments.bench.errors import BenchError
from experiments.bench.libccp import CRATE, EXAMPLE
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan
from scripts.agents_table import DOCUMENT, results, table, written
from scripts.bench_tables import BEGIN, END


class Serving(AgentProcess):
    """A `ccp serve-ccp` that no agent comes to."""

    def __init__(self) -> None:
        """Start nothing."""

    def log(self) -> str:
        return ""


def test_agents_are_named_once_and_have_a_command() -> None:
    assert named(["reno=./reno --ipc unix", "x=A=B c"]) == {"reno": "./reno --ipc unix", "x": "A=B c"}
    for wrong in (["reno"], ["=./reno"], ["reno="], ["a=b", "a=c"], ["cubic=./cubic"]):
        with pytest.raises(BenchError) as caught:
            named(wrong, ["cubic"])
        assert caught.value.slug == "bench.bad_options"


@pytest.mark.parametrize(
    ("command", "why"), [("/no/such/agent", "/no/such/agent"), ("ls /no/such", "/no/such")]
)
def test_an_agent_that_does_not_come_is_told_with_its_last_words(command: str, why: str) -> None:
    with pytest.raises(BenchError) as caught, started("mine", command, Serving()):
        raise AssertionError
    assert caught.value.slug == "bench.peer_failed"
    assert "`mine`" in caught.value.message
    assert why in caught.value.why


def test_paths_are_those_of_the_other_benchmarks_or_named_by_rate_and_rtt() -> None:
    assert tuple(Scenario) == SCENARIOS
    assert Where(Scenario.one_gbit).name == "1gbit"
    assert Where(None, 100, 20).name == "100mbit-20ms"
    assert Where(None, 100, 20, 0.25).name == "100mbit-20ms-0.25bdp"


def test_a_datapath_on_libccp_is_a_program_and_has_a_path_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as caught:
        Beside(libccp=tmp_path / "libccp_path").path_of(Where())
    assert caught.value.slug == "bench.no_example"
    assert examples.build(CRATE, EXAMPLE) in caught.value.fix
    with pytest.raises(BenchError) as caught:
        Beside(libccp=tmp_path / "libccp_path").path_of(Where(Scenario.one_gbit))
    assert caught.value.slug == "bench.bad_options"
    assert "--scenario" in caught.value.where
    assert Beside(["reno"], ["cubic"]).names() == ["ccp.reno", "cubic"]


def test_the_document_has_the_table_of_the_kept_results() -> None:
    text = DOCUMENT.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert written(text, results()) == text, "run `make docs-tables`"


def test_a_line_has_what_an_agent_comes_to_and_its_ratios() -> None:
    options = {"path": "48mbit-40ms", "agents": ["reno"], "beside": ["reno.libccp", "cubic"]}
    result = BenchResult("agents", Plan(), options)
    for name, goodput in (("reno", 45.0), ("reno.libccp", 46.0), ("cubic", 47.0)):
        result.add(f"goodput_mbit_per_s.{name}", [goodput] * 6, "Mbit/s")
    for name, cpu in (("reno", 3.0), ("cubic", 2.0)):
        result.add(f"cpu_s_per_gb.{name}", [cpu] * 6, "s/GB")
    result.add("goodput_mbit_per_s_ratio.reno", [0.97, 0.98, 0.98, 0.98, 0.98, 0.99], "ratio", ">= 0.95")
    lines = table([result]).splitlines()
    assert lines[0].startswith("| path | congestion control | goodput [Mbit/s] | RTT p50 [ms] |")
    ratios = "0.98 (0.97 - 0.99), met |  |  | 1.5 (1.5 - 1.5) |"
    assert lines[2] == f"| 48mbit-40ms | agent `reno` | 45 |  |  |  | 3 | {ratios}"
    assert lines[3] == "| 48mbit-40ms | agent `reno` on libccp | 46 |  |  |  |  |  |  |  |  |"
    assert lines[4] == "| 48mbit-40ms | `cubic` | 47 |  |  |  | 2 |  |  |  |  |"
