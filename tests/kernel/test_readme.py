"""What the README shows works."""

from __future__ import annotations

import re
from pathlib import Path as FilePath

from experiments.agent_process import running_agent
from experiments.netlab import Path, iperf3
from tests.lent import TEST

README = FilePath(__file__).parents[2] / "README.md"


def test_the_readmes_algorithm_fills_a_link(path_100mbit: Path, tmp_path: FilePath) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "mine.py"
    file.write_text(text)
    with running_agent(str(file)) as agent:
        result = iperf3(path_100mbit.sender, path_100mbit.receiver, congestion="ccp.mine", duration_s=5)
        assert agent.log() == ""
    assert result.goodput_bit_per_s > 0.85 * 100e6 * 1448 / 1514 * (1 - TEST.share)
