"""Third-party datapaths accept the algorithms in `tests.carrying`, and refuse all others."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ccp_algs import registry
from ccplane.agent.description import Description, assembled, plan
from ccplane.base.errors import CcpError
from ccplane.datapath.kinds.interop import CCP_UNIX, QUIC
from ccplane.datapath.registry import kind_of, names, refusal, table
from experiments.traffic import Quic
from tests.carrying import CARRIED

PAGE = Path(__file__).parents[4] / "docs/datapaths.md"


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(), f"put this into {PAGE.name}:\n{table()}"


def test_the_agents_end_is_served_and_quic_is_the_traffic_of_scenarios() -> None:
    assert {CCP_UNIX, QUIC} <= set(names(scenarios=False))
    refused = refusal(QUIC, scenarios=True)
    assert refused is not None
    assert f"to `{kind_of(QUIC).traffic}`" in refused[1]
    assert Quic.__struct_config__.tag == kind_of(QUIC).traffic


@pytest.mark.parametrize("algorithm", registry.names())
@pytest.mark.parametrize("datapath", [CCP_UNIX, QUIC])
def test_an_algorithm_is_carried_or_refused_by_name(datapath: str, algorithm: str, tmp_path: Path) -> None:
    opens = kind_of(datapath).opens
    assert opens is not None
    there = opens(tmp_path / "agent")
    planned = plan(Description((algorithm,)))
    with closing(there):
        if algorithm in CARRIED[datapath]:
            assembled(planned, there)
            return
        with pytest.raises(CcpError) as caught:
            assembled(planned, there)
    assert caught.value.slug in {"lang.limit", "load.extension"}
