"""Every algorithm that is shipped runs on both datapaths."""

from __future__ import annotations

import pytest

from ccp_algs import registry
from tests.carrying import must_carry


@pytest.mark.parametrize("datapath", ["ebpf", "sim"])
@pytest.mark.parametrize("algorithm", registry.names())
def test_an_algorithm_carries_a_flow(algorithm: str, datapath: str) -> None:
    must_carry(algorithm, datapath)
