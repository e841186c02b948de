"""A CCP datapath for aioquic: an agent that uses CCP's wire format controls its connections.

`register` adds a congestion control to aioquic. aioquic calls `controller`; `session` connects it to the
agent's socket. Fold programs, delivery rates and the socket are implemented in `native/ccp-quic`. Without an
agent, one of aioquic's congestion controls takes over.

Needs the extra `aioquic`. May import: `ccplane.base`, `ccplane.datapath.wire`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ccplane.base.extras import extra_part

with extra_part():
    from aioquic.quic.congestion.base import register_congestion_control

    from ccplane.datapath.aioquic.controller import CcpCongestionControl
from ccplane.datapath.aioquic.session import Session
from ccplane.datapath.wire import SOCKET as AGENT

__all__ = ["AGENT", "Session", "register"]


def register(
    agent: Path = AGENT, *, name: str = "ccp", algorithm: str = "", fallback: str = "reno"
) -> Session:
    """Add a congestion control to aioquic whose connections an agent controls.

    Connections select it with `QuicConfiguration(congestion_control_algorithm=name)`. All these connections
    must run on the same thread.

    Args:
        agent: The agent's socket. The datapath's socket is in the same directory, which is created if
            necessary.
        name: Its name in aioquic.
        algorithm: Algorithm requested from the agent, at most 63 bytes; empty for the agent's default.
        fallback: Congestion control of aioquic for connections without an agent.

    Raises:
        LoadError: `load.no_extra`, if aioquic is not installed.
        UsageError: `wire.no_socket`.
    """
    session = Session(agent)
    register_congestion_control(name, partial(CcpCongestionControl, session, algorithm, fallback))
    return session
