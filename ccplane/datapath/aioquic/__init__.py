"""A CCP datapath for aioquic: an agent that speaks CCP's wire format steers its connections.

`register` gives aioquic a congestion control. `controller` is what aioquic calls, `session` what is between
the agent's socket and the connections. Fold programs, delivery rates and the socket are those of
`native/ccp-quic`. Without an agent one of aioquic's own congestion controls has the connections.

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


def register(agent: Path = AGENT, *, name: str = "ccp", algorithm: str = "", law: str = "reno") -> Session:
    """Give aioquic a congestion control whose connections an agent steers.

    Connections take it by `QuicConfiguration(congestion_control_algorithm=name)`. All of them belong to one
    thread.

    Args:
        agent: The agent's socket. Ours is in the same directory, which is made if there is none.
        name: What aioquic shall call it.
        algorithm: What the agent is asked for, at most 63 octets; empty: its default.
        law: Which of aioquic's own has connections while no agent does.

    Raises:
        LoadError: `load.no_extra`, if aioquic is not installed.
        UsageError: `wire.no_socket`.
    """
    session = Session(agent)
    register_congestion_control(name, partial(CcpCongestionControl, session, algorithm, law))
    return session
