"""What is known of a flow, and what every report of it has.

Windows are bytes, rates bytes/s, times integer microseconds of CLOCK_MONOTONIC (of virtual time in a
simulator). Everything here is structural: the compiled classes are these without importing them.
"""

from __future__ import annotations

from typing import Final, Protocol

MAX_AMOUNT: Final = 1 << 40
"""Largest window [bytes] and rate [bytes/s] that is accepted: 8.8 Tbit/s. More is a unit error."""

MAX_REGISTER: Final = (1 << 64) - 1
"""Largest value of a register; in fold programs also `+infinity`."""


class FlowInfo(Protocol):
    """What is known of a flow from its start."""

    @property
    def flow_id(self) -> int:
        """Never used twice, also not after a restart of the agent."""
        ...

    @property
    def src_addr(self) -> str:
        """Local address."""
        ...

    @property
    def src_port(self) -> int:
        """Local port."""
        ...

    @property
    def dst_addr(self) -> str:
        """Peer's address."""
        ...

    @property
    def dst_port(self) -> int:
        """Peer's port."""
        ...

    @property
    def family(self) -> int:
        """AF_INET or AF_INET6 of the socket."""
        ...

    @property
    def mss_bytes(self) -> int:
        """Maximum segment size at the start [bytes]."""
        ...

    @property
    def init_cwnd_bytes(self) -> int:
        """Window before anyone set one [bytes]."""
        ...

    @property
    def cc_name(self) -> str:
        """Congestion-control name that the socket chose: `ccp` or `ccp.NAME`."""
        ...

    @property
    def netns_inum(self) -> int:
        """Inode number of the socket's network namespace."""
        ...

    @property
    def cgroup_id(self) -> int:
        """Id (inode number) of the socket's cgroup."""
        ...

    @property
    def created_us(self) -> int:
        """When the flow came to the datapath [us]."""
        ...

    @property
    def ecn_ok(self) -> bool:
        """Whether ECN was negotiated."""
        ...


class FlowStats(Protocol):
    """Totals and state of one flow at `now_us`."""

    @property
    def flow_id(self) -> int:
        """The flow."""
        ...

    @property
    def cwnd_bytes(self) -> int:
        """Window [bytes]."""
        ...

    @property
    def rate_bytes_per_s(self) -> int:
        """Pacing rate set by the algorithm [bytes/s], 0 = none."""
        ...

    @property
    def law(self) -> bool:
        """Whether the fallback law steers the flow."""
        ...

    @property
    def program(self) -> int:
        """Handle of the program that it runs, 0 = none."""
        ...

    @property
    def srtt_us(self) -> int:
        """Smoothed RTT [us]."""
        ...

    @property
    def min_rtt_us(self) -> int:
        """Minimum RTT [us]."""
        ...

    @property
    def delivered_pkts(self) -> int:
        """Segments delivered."""
        ...

    @property
    def lost_pkts(self) -> int:
        """Segments marked lost."""
        ...

    @property
    def retrans_pkts(self) -> int:
        """Segments sent again."""
        ...

    @property
    def bytes_acked(self) -> int:
        """Bytes cumulatively acknowledged."""
        ...

    @property
    def ca_state(self) -> int:
        """Open 0, Disorder 1, CWR 2, Recovery 3, Loss 4 (enum tcp_ca_state, include/uapi/linux/tcp.h)."""
        ...

    @property
    def acks(self) -> int:
        """ACKs seen."""
        ...

    @property
    def reports(self) -> int:
        """Reports made."""
        ...

    @property
    def reports_missed(self) -> int:
        """Reports that found no room and were summed up in later ones."""
        ...

    @property
    def fold_errors(self) -> int:
        """Folds that stopped with an arithmetic error."""
        ...

    @property
    def law_entries(self) -> int:
        """Times the fallback law took over."""
        ...

    @property
    def law_cause(self) -> str:
        """Why the fallback law has the flow, or had it last.

        `new`: no agent has given it a program. `silent`: the heartbeat was too old. `uninstalled`: its
        program was taken away. `no_program`: its algorithm gave it none. `failed`: its algorithm raised.
        """
        ...

    @property
    def law_entered_us(self) -> int:
        """When the fallback law got the flow last [us]."""
        ...

    @property
    def law_left_us(self) -> int:
        """When it gave the flow back after that [us]; 0 while it has it."""
        ...

    @property
    def mail_applied(self) -> int:
        """Updates applied; several written before an ACK count once."""
        ...

    @property
    def mail_applied_us(self) -> int:
        """When the last update was applied [us], 0 = never."""
        ...

    @property
    def now_us(self) -> int:
        """When the totals were last brought up to date: at an ACK [us]."""
        ...


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
