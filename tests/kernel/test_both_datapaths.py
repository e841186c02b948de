"""Every algorithm that is shipped runs on both datapaths."""

from __future__ import annotations

import pytest

from ccp_algs import registry
from tests.carrying import must_carry

KINDS = {"cubic", "aimd_vec", "bbr3", "r_tcp_cubic"}
"""One of each kind: a window, arrays, pacing, an extension. Others have tests on real sockets themselves."""


@pytest.mark.parametrize(
    ("algorithm", "datapath"),
    [
        pytest.param(
            name, datapath, marks=[pytest.mark.long] if datapath == "ebpf" and name not in KINDS else []
        )
        for name in registry.names()
        for datapath in ("ebpf", "sim")
    ],
)
def test_an_algorithm_carries_a_flow(algorithm: str, datapath: str) -> None:
    must_carry(algorithm, datapath)
