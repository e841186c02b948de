"""Properties and totals of a flow, and the fields that all reports share.

Windows are in bytes, rates in bytes/s, times in integer microseconds of CLOCK_MONOTONIC (of virtual time in a
simulator). The compiled classes have the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from socket import AF_INET
from typing import Final, Literal, Protocol

MAX_AMOUNT: Final = 1 << 40
"""Maximum window [bytes] and rate [bytes/s]; a rate of 8.8 Tbit/s. Larger values are unit errors."""

MAX_REGISTER: Final = (1 << 64) - 1
"""Maximum value of a register; fold programs also write it as `+infinity`."""


EcnMode = Literal["none", "rfc3168", "accecn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowInfo:
    """Properties of a flow that are known from its start."""

    flow_id: int
    """Unique; not reused, even after a restart of the agent."""
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
    """Initial window of the socket [bytes]."""
    cc_name: str
    """Congestion-control name that the socket chose: `ccp` or `ccp.NAME`."""
    netns_inum: int = 0
    """Inode number of the socket's network namespace."""
    cgroup_id: int = 0
    """Id (inode number) of the socket's cgroup."""
    created_us: int
    """Time at which the datapath got the flow [us]."""
    sock_cookie: int = 0
    """Cookie of the socket (`SO_COOKIE`), 0 if the kernel gave it none."""
    ecn_mode: EcnMode = "none"
    """Feedback of ECN marks that was negotiated: RFC 3168, or AccECN (RFC 9768)."""

    @property
    def ecn_ok(self) -> bool:
        """Return whether ECN was negotiated."""
        return self.ecn_mode != "none"


@dataclass(frozen=True, slots=True)
class FlowStats:
    """Totals and state of one flow at `now_us`. Fields that a datapath does not know keep their defaults."""

    # facts: totals (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    flow_id: int
    """Id of the flow: generation << 32 | slot, never reused."""
    fallback: bool = True
    """The fallback controls the flow."""
    program: int = 0
    """Handle of the program that the flow runs; 0 without a program."""
    rate_bytes_per_s: int = 0
    """Pacing rate set by the algorithm [bytes/s]; 0 without pacing."""
    now_us: int = 0
    """Time of the ACK at which the totals were last updated [us]."""
    cwnd_bytes: int = 0
    """Window [bytes]."""
    bytes_acked: int = 0
    """Bytes cumulatively acknowledged."""
    bytes_retrans: int = 0
    """Bytes retransmitted."""
    pacing_rate_bytes_per_s: int = 0
    """Pacing rate of the socket, even if the kernel sets it [bytes/s]."""
    acks: int = 0
    """ACKs that the datapath processed."""
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
    """State of loss recovery: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss."""
    snd_ssthresh_pkts: int = 0
    """Slow-start threshold of the socket [packets]."""
    reports: int = 0
    """Reports sent."""
    reports_missed: int = 0
    """Reports that found no room and were summed up in later ones."""
    mail_applied_us: int = 0
    """Time at which the last update was applied [us]; 0 before the first update."""
    fallback_entered_us: int = 0
    """Time at which the fallback last took over the flow [us]."""
    fallback_left_us: int = 0
    """Time at which the fallback then returned the flow [us]; 0 while the fallback has the flow."""
    mail_applied: int = 0
    """Updates applied; several written before an ACK count once."""
    fold_errors: int = 0
    """Folds aborted by an arithmetic error."""
    last_fold_error: int = 0
    """The last arithmetic error, of enum ccp_fold_error; 0 if there was none."""
    fallback_entries: int = 0
    """Number of times that the fallback took over."""
    fallback_cause: str = "new"
    """Why the fallback has the flow, or had it last. `new`: no agent has set its program yet. `silent`: the
    agent's heartbeat was too old. `unanswered`: the agent did not handle a report of the flow in time.
    `uninstalled`: its program was removed. `no_program`: its algorithm set no program. `failed`: its
    algorithm raised an exception.
    """
    local_congestion: int = 0
    """Times that a queue of this host refused a packet."""
    timeouts: int = 0
    """Retransmission timeouts."""
    # end of facts


class ReportHead(Protocol):
    """Fields of every report; `ccp_algs.fold.FoldProgram` defines the fields of one program."""

    # facts: report_head (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    @property
    def flow_id(self) -> int:
        """Id of the flow."""
        ...

    @property
    def now_us(self) -> int:
        """Time at which the fold program made the report [us]."""
        ...

    @property
    def cwnd_bytes(self) -> int:
        """Window after the fold [bytes]."""
        ...

    @property
    def rate_bytes_per_s(self) -> int:
        """Pacing rate after the fold [bytes/s]; 0 if the algorithm does not pace."""
        ...

    @property
    def missed(self) -> int:
        """Number of earlier reports that found no room and are summed up in this one."""
        ...

    @property
    def program(self) -> str:
        """Name of the program that made the report."""
        ...

    @property
    def timeout(self) -> bool:
        """A retransmission timeout happened since the last report."""
        ...

    @property
    def fold_error(self) -> bool:
        """An arithmetic error aborted the fold program since the last report."""
        ...

    # end of facts


REPORT_HEAD: Final[tuple[tuple[str, str], ...]] = (
    # facts: report_columns (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    ("flow_id", "u8"),
    ("now_us", "u8"),
    ("cwnd_bytes", "u8"),
    ("rate_bytes_per_s", "u8"),
    ("missed", "u4"),
    ("flags", "u2"),
    # end of facts
)
"""Columns before the Report registers in every row of `Batch.arrays()`: name and NumPy format."""

COUNTERS: Final = {
    # facts: counters (made by `make facts` from native/ccp-bpf/src/bpf/intf.h)
    "flows_over_limit": "Sockets that found no free slot and use the fallback.",
    "flows_over_quota": "Sockets over the quota of their user or cgroup, which use the fallback.",
    "flows_reaped": "Silent flows whose slots were reclaimed because slots were scarce.",
    "slots_not_returned": "Slots that the kernel could not return when their flows ended; the agent does.",
    "reports_missed": "Reports that found no room, and were summed up in later ones.",
    "creates_missed": "Events of new flows lost for lack of room.",
    "closes_missed": "Events of closed flows lost for lack of room.",
    "fold_errors": "Folds aborted by an arithmetic error.",
    # end of facts
}
"""Counters that every datapath has, with their descriptions."""
