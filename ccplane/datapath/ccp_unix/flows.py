"""Flows of third-party datapaths: their properties, and totals summed from reports."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ccplane.base.flows import FlowInfo, FlowStats
from ccplane.datapath.ccp_unix.peers import Peer
from ccplane.datapath.ccp_unix.programs import Installed
from ccplane.datapath.protocol import FALLBACK_FAILED, FALLBACK_PROGRAM
from ccplane.datapath.wire import Create

PLAIN: Final = "ccp"
"""Congestion-control name of flows that request no algorithm."""


def info_of(create: Create, flow_id: int, now_us: int) -> FlowInfo:
    """Return the properties of an announced flow; its addresses and ports are in network byte order."""
    return FlowInfo(
        flow_id=flow_id,
        src_addr=_address(create.src_ip),
        src_port=socket.ntohs(create.src_port & 0xFFFF),
        dst_addr=_address(create.dst_ip),
        dst_port=socket.ntohs(create.dst_port & 0xFFFF),
        mss_bytes=create.mss_bytes,
        init_cwnd_bytes=create.init_cwnd_bytes,
        cc_name=f"{PLAIN}.{create.algorithm}" if create.algorithm else PLAIN,
        created_us=now_us,
    )


def _address(raw: int) -> str:
    return str(ipaddress.IPv4Address(struct.pack("<I", raw)))


@dataclass(slots=True)
class UnixFlow:
    """One flow.

    Attributes:
        peer: Its datapath.
        number: Its number in the datapath.
        info: Its properties.
        stats: Its totals.
        installed: Its current program; None before the first.
        paced: Whether a rate is set.
    """

    peer: Peer
    number: int
    info: FlowInfo
    stats: FlowStats = field(init=False)
    installed: Installed | None = None
    paced: bool = False

    def __post_init__(self) -> None:
        self.stats = FlowStats(
            self.info.flow_id,
            mss_bytes=self.info.mss_bytes,
            cwnd_bytes=self.info.init_cwnd_bytes,
            fallback_entered_us=self.info.created_us,
            now_us=self.info.created_us,
        )

    def reported(self, head: dict[str, int], now_us: int) -> None:
        """Add a report to the totals."""
        before = self.stats
        rtt_us = head["rtt_us"]
        srtt_us = before.srtt_us + (rtt_us - before.srtt_us) // 8 if before.srtt_us else rtt_us
        acked = before.bytes_acked + head["acked_bytes"]
        self.stats = replace(
            before,
            cwnd_bytes=head["cwnd_bytes"],
            rate_bytes_per_s=head.get("rate_bytes_per_s", before.rate_bytes_per_s),
            srtt_us=srtt_us,
            min_rtt_us=min(before.min_rtt_us or rtt_us, rtt_us) if rtt_us else before.min_rtt_us,
            bytes_acked=acked,
            delivered_pkts=acked // max(1, self.info.mss_bytes),
            lost_pkts=before.lost_pkts + head["lost_pkts"],
            timeouts=before.timeouts + head["timeouts"],
            reports=before.reports + 1,
            now_us=now_us,
        )

    def gave(self, installed: Installed, given: int, now_us: int) -> None:
        """Record a new program of the flow."""
        self.installed = installed
        before = self.stats
        if installed.handle != FALLBACK_PROGRAM:
            self.stats = replace(before, fallback=False, program=installed.handle, fallback_left_us=now_us)
        elif not before.fallback or before.fallback_cause == "new":
            cause = "failed" if given == FALLBACK_FAILED else "no_program"
            self.stats = replace(
                before,
                fallback=True,
                program=FALLBACK_PROGRAM,
                fallback_cause=cause,
                fallback_entries=before.fallback_entries + 1,
                fallback_entered_us=now_us,
                fallback_left_us=0,
            )

    def known(self) -> dict[str, int]:
        """Return the state that a new program continues with, by the names in `Portable.carried`."""
        stats = self.stats
        return {
            "mss_bytes": self.info.mss_bytes,
            "delivered_bytes": stats.bytes_acked,
            "lost_so_far": stats.lost_pkts,
            "min_rtt_us": stats.min_rtt_us or 0xFFFF_FFFF,
            "srtt_us": stats.srtt_us,
            "srtt8_us": 8 * stats.srtt_us,
        }


def head_of(installed: Installed, values: Sequence[int]) -> dict[str, int]:
    """Return the head of a report by name."""
    return {name: values[place] for name, place in installed.sent.head}
