"""Every algorithm that is shipped runs on every datapath that has what it needs."""

from __future__ import annotations

import pytest

from ccplane.datapath.kinds.interop import CCP_UNIX, QUIC
from ccplane.datapath.registry import SIM
from tests.carrying import CARRIED, must_carry

KINDS = {"cubic", "aimd_vec", "bbr3", "r_tcp_cubic"}
"""One of each kind: a window, arrays, pacing, an extension. Others have tests on real sockets themselves."""
BY_EXAMPLES = pytest.mark.emulated("their flows are those of examples in Rust, which is not there")


def marks(name: str, datapath: str) -> list[pytest.MarkDecorator]:
    """How long it takes, and what it needs."""
    long = datapath != SIM and name not in KINDS
    return [pytest.mark.long] * long + [BY_EXAMPLES] * (datapath in (CCP_UNIX, QUIC))


@pytest.fixture(
    params=[
        pytest.param((name, datapath), id=f"{name}-{datapath}", marks=marks(name, datapath))
        for datapath, names in CARRIED.items()
        for name in sorted(names)
    ]
)
def carried(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An algorithm, and a datapath that has it."""
    named: tuple[str, str] = request.param
    return named


def test_an_algorithm_carries_a_flow(carried: tuple[str, str]) -> None:
    must_carry(*carried)
