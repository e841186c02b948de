from __future__ import annotations

import pytest

from ccplane.datapath import registry
from experiments.run import DATAPATHS


def test_scenarios_run_on_what_is_said_to_be_for_them() -> None:
    assert list(DATAPATHS) == registry.names(scenarios=True)


@pytest.mark.parametrize(
    ("name", "scenarios", "message"),
    [
        ("ebpf", False, None),
        ("sim", True, None),
        ("sim", False, "`ccp run` cannot use the datapath `sim`"),
        ("ebfp", False, "there is no datapath `ebfp`"),
    ],
)
def test_a_name_is_refused_with_those_that_there_are(name: str, scenarios: bool, message: str | None) -> None:
    refused = registry.refusal(name, scenarios=scenarios)
    assert (None if refused is None else refused[0]) == message
    if refused is not None:
        assert "ebpf" in refused[1]
