from __future__ import annotations

from pathlib import Path

import pytest

from ccplane.datapath import registry
from ccplane.datapath.ccp_unix.programs import LIMITS
from experiments.run import DATAPATHS
from experiments.traffic import Quic

PAGE = Path(__file__).parents[3] / "docs/datapaths.md"


def test_the_page_has_the_table() -> None:
    assert registry.table() in PAGE.read_text(), f"put this into {PAGE.name}:\n{registry.table()}"


def test_scenarios_run_on_what_is_said_to_be_for_them() -> None:
    assert list(DATAPATHS) == registry.names(scenarios=True)


def test_what_has_its_agent_at_a_socket_has_limits() -> None:
    assert [registry.EBPF, *LIMITS] == registry.names(scenarios=False)


@pytest.mark.parametrize(
    ("name", "scenarios", "message"),
    [
        ("ebpf", False, None),
        ("quic", False, None),
        ("sim", True, None),
        ("sim", False, "`ccp run` cannot use the datapath `sim`"),
        ("ccp:unix", True, "scenarios cannot use the datapath `ccp:unix`"),
        ("quic", True, "scenarios cannot use the datapath `quic`"),
        ("ccp:unx", False, "there is no datapath `ccp:unx`"),
    ],
)
def test_a_name_is_refused_with_those_that_there_are(name: str, scenarios: bool, message: str | None) -> None:
    refused = registry.refusal(name, scenarios=scenarios)
    assert (None if refused is None else refused[0]) == message
    if refused is not None:
        assert "`ebpf`" in refused[1] or "ccp:unix" in refused[1] or "ebpf" in refused[1]


def test_who_asks_for_quic_as_a_scenarios_datapath_is_told_of_its_traffic() -> None:
    refused = registry.refusal(registry.QUIC, scenarios=True)
    assert refused is not None
    kind = next(kind for kind in registry.KINDS if kind.name == registry.QUIC)
    assert f"the traffic `{kind.traffic}`" in refused[1]
    assert Quic.__struct_config__.tag == kind.traffic
