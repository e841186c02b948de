"""What the README shows works, also where the user's files are called like packages of ccplane's."""

from __future__ import annotations

import re
from pathlib import Path as FilePath

import pytest

from experiments.agent_process import running_agent
from experiments.netlab import Path, iperf3
from tests.lent import TEST

SLOW_START = """
from agent import FACTOR
from ccplane import Algorithm, register
from ccplane.fold import Ack, Flow, FoldProgram, every, total

class Fold(FoldProgram):
    acked = total(Ack.bytes_acked)
    when = every(Flow.srtt_us)

@register("mine")
class Mine(Algorithm):
    program = Fold

    def on_report(self, report):
        self.flow.set(cwnd_bytes=min(report.cwnd_bytes + FACTOR * report.acked, 2_000_000))
"""
README = FilePath(__file__).parents[2] / "README.md"


def test_the_readmes_algorithm_fills_a_link(path_100mbit: Path, tmp_path: FilePath) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "mine.py"
    file.write_text(text)
    with running_agent(str(file)) as agent:
        result = iperf3(path_100mbit.sender, path_100mbit.receiver, congestion="ccp.mine", duration_s=5)
        assert agent.log() == ""
    assert result.goodput_bit_per_s > 0.85 * 100e6 * 1448 / 1514 * (1 - TEST.share)


def test_ccp_run_takes_no_module_of_the_users_for_its_own(
    path_100mbit: Path, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text("FACTOR = 2\n")
    (tmp_path / "telemetry.py").write_text("FACTOR = 1\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/__init__.py").write_text("")
    (tmp_path / "mine.py").write_text(SLOW_START)
    monkeypatch.chdir(tmp_path)
    with running_agent("mine.py") as agent:
        result = iperf3(path_100mbit.sender, path_100mbit.receiver, congestion="ccp.mine", duration_s=2)
        assert agent.log() == ""
    assert result.goodput_bit_per_s > 0
