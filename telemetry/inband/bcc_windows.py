"""Congestion windows of this host's TCP sockets, traced with `bcc`, as the paper of INT-driven TCP did it.

For hosts with the kernel's headers, and for whoever wants to change the probe in a notebook: bcc compiles the
text below when it starts. Everybody else takes `ccp_base._native.TcpTrace`, which needs neither compiler nor
headers. The rows of both have the same columns, so that `telemetry.inband.records.join_windows` takes either.

Distributions have bcc: `apt install python3-bpfcc` (Debian, Ubuntu). `ccp probe` runs any other text.
"""

from __future__ import annotations

import ctypes
import os
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from telemetry.bpfcc import host
from telemetry.bpfcc.errors import ProbeError
from telemetry.inband.node_errors import NodeError

COLUMNS: Final = np.dtype(
    [
        ("t_us", "u8"),
        ("cwnd_bytes", "u8"),
        ("ssthresh_bytes", "u8"),
        ("bytes_in_flight", "u8"),
        ("srtt_us", "u4"),
        ("mss_bytes", "u4"),
        ("saddr", "u1", 16),
        ("daddr", "u1", 16),
        ("sport", "u2"),
        ("dport", "u2"),
        ("ca_state", "u4"),
    ]
)
"""As `struct row` below, and named as in `TcpTrace`; IPv4 addresses are mapped."""

BUFFER_PAGES: Final = 256
"""Room for rows on each processor: 1 MiB, 10,000 rows."""

PROGRAM: Final = r"""
#include <net/sock.h>
#include <net/tcp.h>

// No gaps between the fields: the verifier wants every octet of it written.
struct row {
    u64 t_us;
    u64 cwnd_bytes;
    u64 ssthresh_bytes; // all ones while there is none
    u64 bytes_in_flight;
    u32 srtt_us;
    u32 mss_bytes;
    u8 saddr[16];
    u8 daddr[16];
    u16 sport;
    u16 dport;
    u32 ca_state;
};

BPF_PERF_OUTPUT(rows);

static __always_inline void put_mapped(u8 *to, u32 ipv4)
{
    to[10] = to[11] = 0xff;
    __builtin_memcpy(to + 12, &ipv4, 4);
}

// A segment came in on an open connection; its ACK is not processed yet.
int kprobe__tcp_rcv_established(struct pt_regs *ctx, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct row row = {};
    u64 mss_bytes = tp->mss_cache;
    u16 dport = sk->__sk_common.skc_dport; // bcc reads no kernel memory inside of macros, such as ntohs()
    u8 bits = 0;

    row.t_us = bpf_ktime_get_ns() / 1000;
    row.cwnd_bytes = tp->snd_cwnd * mss_bytes;
    row.ssthresh_bytes = -1;
    if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
        row.ssthresh_bytes = tp->snd_ssthresh * mss_bytes;
    row.bytes_in_flight = (tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out) * mss_bytes;
    row.srtt_us = tp->srtt_us >> 3; // the kernel keeps eight times the value
    row.mss_bytes = mss_bytes;
    if (sk->__sk_common.skc_family == AF_INET6) {
        bpf_probe_read_kernel(row.saddr, 16, &sk->__sk_common.skc_v6_rcv_saddr);
        bpf_probe_read_kernel(row.daddr, 16, &sk->__sk_common.skc_v6_daddr);
    } else {
        put_mapped(row.saddr, sk->__sk_common.skc_rcv_saddr);
        put_mapped(row.daddr, sk->__sk_common.skc_daddr);
    }
    row.sport = sk->__sk_common.skc_num;
    row.dport = ntohs(dport);
    // icsk_ca_state has no address of its own: five bits behind this field.
    bpf_probe_read_kernel(&bits, 1, (u8 *)sk + offsetofend(struct inet_connection_sock, icsk_sync_mss));
    row.ca_state = bits & 31;
    rows.perf_submit(ctx, &row, sizeof(row));
    return 0;
}
"""


class BccWindows:
    """The probe, attached; use it in a `with` block.

    Attributes:
        dropped: Rows that were lost because nobody drained.
    """

    def __init__(self) -> None:
        """Compile, load and attach it.

        Raises:
            NodeError: `int.no_bcc`.
        """
        bcc = _bcc()
        self.dropped = 0
        self._taken: list[bytes] = []
        try:
            self._probe: Any = bcc.BPF(text=PROGRAM.encode())
        except Exception as error:  # bcc has none of its own
            raise _no_bcc(f"{error}; the compiler's words are on stderr") from error
        self._probe[b"rows"].open_perf_buffer(self._take, page_cnt=BUFFER_PAGES, lost_cb=self._lost)

    def drain(self) -> NDArray[np.void]:
        """Return the rows since the last call, oldest first on each processor."""
        self._probe.perf_buffer_poll(timeout=0)
        taken, self._taken = self._taken, []
        return np.frombuffer(b"".join(taken), COLUMNS)

    def close(self) -> None:
        """Take it out of the kernel."""
        self._probe.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, _processor: int, data: Any, _size: int) -> None:
        self._taken.append(ctypes.string_at(data, COLUMNS.itemsize))

    def _lost(self, count: int) -> None:
        self.dropped += count


def _bcc() -> Any:
    if reason := host.why_not():
        raise _no_bcc(reason)
    try:
        return host.module()
    except ProbeError as error:
        raise _no_bcc(f"{error.message}; {error.why}") from error


def _no_bcc(why: str) -> NodeError:
    return NodeError(
        "int.no_bcc",
        "bcc cannot trace windows here",
        f"kernel {os.uname().release}",
        why,
        "apt install python3-bpfcc linux-headers-$(uname -r); or take ccp_base._native.TcpTrace",
    )
