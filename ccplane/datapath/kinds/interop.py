"""Datapaths that connect over CCP's Unix sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ccplane.datapath.protocol import Datapath
from ccplane.datapath.registry import Kind

CCP_UNIX: Final = "ccp:unix"
QUIC: Final = "quic"

SOCKET: Final = Path("/tmp/ccp/portus")
"""Default socket of agents built with portus, where datapaths look for it."""


def _libccp(path: Path) -> Datapath:
    from ccplane.datapath.ccp_unix.datapath import CcpUnixDatapath
    from ccplane.datapath.ccp_unix.programs import LIBCCP

    return CcpUnixDatapath(path, LIBCCP)


def _ccplane(path: Path) -> Datapath:
    from ccplane.datapath.ccp_unix.datapath import CcpUnixDatapath
    from ccplane.datapath.ccp_unix.programs import CCPLANE

    return CcpUnixDatapath(path, CCPLANE)


KINDS: Final = (
    Kind(
        name=CCP_UNIX,
        flows="flows of any datapath built on libccp 1.2, over Unix sockets",
        runs=True,
        scenarios=False,
        needs="the datapath, run by the same user",
        measures="CCP's 15, and those derived from them",
        sets="window below 1 GiB, rate below 4.3 GB/s, registers",
        programs="255 instructions, 110 registers of each kind, 8 programs at a time",
        alone="the datapath's own congestion control",
        socket=SOCKET,
        opens=_libccp,
    ),
    Kind(
        name=QUIC,
        flows="connections of quinn, with the crate `ccp-quic`, and of aioquic, with "
        "`ccplane.datapath.aioquic`",
        runs=True,
        scenarios=False,
        needs="the program, run by the same user",
        measures="CCP's 15, and those derived from them",
        sets="window, rate as a limit of the window, registers",
        programs="1024 instructions, 64 registers of each kind, 63 programs at a time",
        alone="quinn's CUBIC, one of aioquic's congestion controls",
        socket=SOCKET,
        opens=_ccplane,
        traffic="quic",
    ),
)
