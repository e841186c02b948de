"""What is known of a flow, and what every report of it has.

Windows are bytes, rates bytes/s, times integer microseconds of CLOCK_MONOTONIC (of virtual time in a
simulator). Everything here is structural: the compiled classes are these without importing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from socket import AF_INET
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowInfo:
    """What is known of a flow from its start."""

    flow_id: int
    """Never used twice, also not after a restart of the agent."""
    src_addr: str
    """Local address."""
    src_port: int
    """Local port."""
    dst_addr: str
    """Peer's address."""
    dst_port: int
    """Peer's port."""
    family: int = int(AF_INET)
    """AF_INET or AF_INET6 of the socket."""
    mss_bytes: int
    """Maximum segment size at the start [bytes]."""
    init_cwnd_bytes: int
    """Window before anyone set one [bytes]."""
    cc_name: str
    """Congestion-control name that the socket chose: `ccp` or `ccp.NAME`."""
    netns_inum: int = 0
    """Inode number of the socket's network namespace."""
    cgroup_id: int = 0
    """Id (inode number) of the socket's cgroup."""
    created_us: int
    """When the flow came to the datapath [us]."""
    sock_cookie: int = 0
    """Cookie of the socket (`SO_COOKIE`), 0 if the kernel gave it none."""
    ecn_ok: bool = False
    """Whether ECN was negotiated."""


@dataclass(frozen=True, slots=True)
class FlowStats:
    """Totals and state of one flow at `now_us`. What a datapath does not know stays as it is here."""

    flow_id: int
    """The flow."""
    cwnd_bytes: int = 0
    """Window [bytes]."""
    rate_bytes_per_s: int = 0
    """Pacing rate set by the algorithm [bytes/s], 0 = none."""
    law: bool = True
    """Whether the fallback law steers the flow."""
    program: int = 0
    """Handle of the program that it runs, 0 = none."""
    now_us: int = 0
    """When the totals were last brought up to date: at an ACK [us]."""
    bytes_acked: int = 0
    """Bytes cumulatively acknowledged."""
    bytes_retrans: int = 0
    """Bytes retransmitted."""
    mss_bytes: int = 0
    """Maximum segment size [bytes]."""
    srtt_us: int = 0
    """Smoothed RTT [us]."""
    min_rtt_us: int = 0
    """Minimum RTT [us]."""
    delivered_pkts: int = 0
    """Segments delivered."""
    lost_pkts: int = 0
    """Segments marked lost."""
    retrans_pkts: int = 0
    """Segments retransmitted."""
    packets_in_flight: int = 0
    """Segments sent and neither delivered nor marked lost."""
    ca_state: int = 0
    """Open 0, Disorder 1, CWR 2, Recovery 3, Loss 4 (enum tcp_ca_state, include/uapi/linux/tcp.h)."""
    snd_ssthresh_pkts: int = 0
    """The kernel's slow-start threshold [packets]."""
    pacing_rate_bytes_per_s: int = 0
    """The socket's pacing rate, whoever set it [bytes/s]."""
    acks: int = 0
    """ACKs seen."""
    reports: int = 0
    """Reports made."""
    reports_missed: int = 0
    """Reports that found no room and were summed up in later ones."""
    mail_applied: int = 0
    """Updates applied; several written before an ACK count once."""
    mail_applied_us: int = 0
    """When the last update was applied [us], 0 = never."""
    fold_errors: int = 0
    """Folds that stopped with an arithmetic error."""
    last_fold_error: int = 0
    """Number of the last of these errors (enum ccp_fold_error, native/ccp-bpf/src/bpf/intf.h)."""
    law_entries: int = 0
    """Times the fallback law took over."""
    law_cause: str = "new"
    """Why the fallback law has the flow, or had it last.

    `new`: no agent has given it a program. `silent`: the heartbeat was too old. `uninstalled`: its program
    was taken away. `no_program`: its algorithm gave it none. `failed`: its algorithm raised.
    """
    law_entered_us: int = 0
    """When the fallback law got the flow last [us]."""
    law_left_us: int = 0
    """When it gave the flow back after that [us]; 0 while it has it."""
    local_congestion: int = 0
    """Times a local queue refused a packet."""
    timeouts: int = 0
    """Retransmission timeouts."""


class ReportHead(Protocol):
    """What all reports have; see `ccp_algs.fold.FoldProgram` for those of one program."""

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def now_us(self) -> int:
        """When the fold program made it [us]."""
        ...

    @property
    def cwnd_bytes(self) -> int:
        """Window then, behind the fold [bytes]."""
        ...

    @property
    def rate_bytes_per_s(self) -> int:
        """Pacing rate then [bytes/s], 0 = not paced by the algorithm."""
        ...

    @property
    def program(self) -> str:
        """Name of the program that made it."""
        ...

    @property
    def missed(self) -> int:
        """Reports that found no room and are summed up in this one."""
        ...

    @property
    def timeout(self) -> bool:
        """A retransmission timeout happened since the last report."""
        ...

    @property
    def fold_error(self) -> bool:
        """The fold program stopped half way (overflow, division by 0) at least once since the last report."""
        ...
