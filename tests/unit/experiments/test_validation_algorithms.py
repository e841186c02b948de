"""Every shipped algorithm runs in the simulator; `tests/kernel/test_all_datapaths.py` has all datapaths."""

from __future__ import annotations

import pytest

from ccp_algs import registry
from tests.carrying import must_carry


@pytest.mark.parametrize("algorithm", registry.names())
def test_an_algorithm_carries_a_flow_in_the_simulator(algorithm: str) -> None:
    must_carry(algorithm, "sim")
