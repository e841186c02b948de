"""Congestion windows of this host's TCP sockets, traced with `bcc`, as the paper of INT-driven TCP did it.

For hosts with the kernel's headers, and for whoever wants to change the probe in a notebook: bcc compiles the
text below when it starts. Everybody else takes `datapath._native.TcpTrace`, which needs neither compiler nor
headers. The rows of both have the same columns, so that `telemetry.inband.records.join_windows` takes either.

Distributions have bcc: `apt install python3-bpfcc` (Debian, Ubuntu), and a virtual environment that sees it
(`python -m venv --system-site-packages`).
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from telemetry.inband.node_errors import NodeError

COLUMNS: Final = np.dtype(
    [
        ("t_us", "u8"),
        ("saddr", "u1", 16),
        ("daddr", "u1", 16),
        ("sport", "u2"),
        ("dport", "u2"),
        ("cwnd_bytes", "u4"),
        ("mss_bytes", "u4"),
    ],
    align=True,
)
"""As `struct row` below, and named as in `TcpTrace`; IPv4 addresses are mapped."""

HEADERS: Final = (Path("/lib/modules", os.uname().release, "build"), Path("/sys/kernel/kheaders.tar.xz"))
"""Where bcc looks for the kernel's headers."""

PROGRAM: Final = r"""
#include <net/sock.h>
#include <linux/tcp.h>

struct row {
    u64 t_us;
    u8 saddr[16];
    u8 daddr[16];
    u16 sport;
    u16 dport;
    u32 cwnd_bytes;
    u32 mss_bytes;
};

BPF_PERF_OUTPUT(rows);

static void put_mapped(u8 *to, u32 ipv4)
{
    to[10] = to[11] = 0xff;
    __builtin_memcpy(to + 12, &ipv4, 4);
}

// A segment came in on an open connection; its ACK is not processed yet.
int kprobe__tcp_rcv_established(struct pt_regs *ctx, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct row row = {};

    row.t_us = bpf_ktime_get_ns() / 1000;
    if (sk->__sk_common.skc_family == AF_INET6) {
        bpf_probe_read_kernel(row.saddr, 16, &sk->__sk_common.skc_v6_rcv_saddr);
        bpf_probe_read_kernel(row.daddr, 16, &sk->__sk_common.skc_v6_daddr);
    } else {
        put_mapped(row.saddr, sk->__sk_common.skc_rcv_saddr);
        put_mapped(row.daddr, sk->__sk_common.skc_daddr);
    }
    row.sport = sk->__sk_common.skc_num;
    row.dport = ntohs(sk->__sk_common.skc_dport);
    row.mss_bytes = tp->mss_cache;
    row.cwnd_bytes = tp->snd_cwnd * row.mss_bytes;
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
        self._probe: Any = bcc.BPF(text=PROGRAM)
        self._probe["rows"].open_perf_buffer(self._take, lost_cb=self._lost)

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


def why_not() -> str | None:
    """Return why bcc cannot work here, or None."""
    if importlib.util.find_spec("bcc") is None:
        return "Python has no module bcc"
    if not any(path.exists() for path in HEADERS):
        return f"the kernel's headers are neither in {HEADERS[0]} nor in {HEADERS[1]}"
    return None


def _bcc() -> Any:
    reason = why_not()
    if reason is None:
        return importlib.import_module("bcc")
    raise NodeError(
        "int.no_bcc",
        "bcc cannot trace windows here",
        f"kernel {os.uname().release}",
        reason,
        "apt install python3-bpfcc linux-headers-$(uname -r); or take datapath._native.TcpTrace",
    )
