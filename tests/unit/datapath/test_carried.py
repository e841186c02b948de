"""Which algorithms datapaths of others have: `tests.carrying` says it, and they refuse all else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccp_algs import registry
from ccplane.agent.description import Description, assembled, plan
from ccplane.base.errors import CcpError
from ccplane.datapath.ccp_unix.datapath import CcpUnixDatapath
from ccplane.datapath.ccp_unix.programs import LIMITS
from tests.carrying import CARRIED


@pytest.mark.parametrize("algorithm", registry.names())
@pytest.mark.parametrize("datapath", sorted(LIMITS))
def test_an_algorithm_is_carried_or_refused_by_name(datapath: str, algorithm: str, tmp_path: Path) -> None:
    there = CcpUnixDatapath(tmp_path / "agent", LIMITS[datapath])
    planned = plan(Description((algorithm,)))
    with there:
        if algorithm in CARRIED[datapath]:
            assembled(planned, there)
            return
        with pytest.raises(CcpError) as caught:
            assembled(planned, there)
    assert caught.value.slug in {"lang.limit", "load.extension"}
