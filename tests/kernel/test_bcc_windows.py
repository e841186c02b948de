"""The bcc variant of the window trace says what the CO-RE one says, on hosts that have bcc and headers."""

from __future__ import annotations

import ipaddress
import os
import time

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from ccp_base import _native
from experiments.netlab import bottleneck, iperf3, namespace
from telemetry.bpfcc import why_not
from telemetry.inband import bcc_windows
from telemetry.inband.bcc_windows import BccWindows
from telemetry.inband.node_errors import NodeError
from telemetry.inband.records import TRACED, join_windows

pytestmark = [
    pytest.mark.kernel(struct_ops=False),
    pytest.mark.skipif(why_not() is not None, reason=f"bcc cannot run here: {why_not()}"),
]

Rows = NDArray[np.void]
Flow = tuple[str, str, int, int]
SIZE_BYTES = 2_000_000


def flow_of(row: np.void) -> Flow:
    addresses = [ipaddress.IPv6Address(row[name].tobytes()) for name in ("saddr", "daddr")]
    src, dst = (str(address.ipv4_mapped or address) for address in addresses)
    return src, dst, int(row["sport"]), int(row["dport"])


def histories(rows: Rows) -> dict[Flow, list[tuple[int, ...]]]:
    """Return what a trace says of each flow, in order of time."""
    of_flow: dict[Flow, list[tuple[int, ...]]] = {}
    for row in rows[np.argsort(rows["t_us"], kind="stable")]:
        of_flow.setdefault(flow_of(row), []).append(tuple(int(row[name]) for name in TRACED))
    return of_flow


def test_both_traces_see_the_same_windows() -> None:
    with bottleneck(rate_bytes_per_s=12.5e6, buffer_bytes=30_000) as path:
        ends = [os.stat(namespace.path_of(host.namespace)).st_ino for host in (path.sender, path.receiver)]
        with BccWindows() as probe, _native.TcpTrace(0, ends) as trace:
            for family in ("ipv4", "ipv6"):
                iperf3(path.sender, path.receiver, congestion="cubic", total_bytes=SIZE_BYTES, family=family)
            time.sleep(0.5)  # the last ACKs come after both programs have ended
            until_us = time.monotonic_ns() // 1000  # of what comes later, one may be drained already
            ours, theirs = (rows[rows["t_us"] < until_us] for rows in (trace.drain(), probe.drain()))
    assert probe.dropped == trace.dropped == 0
    ours = ours[ours["state"] == 1]  # bcc has no row at the end
    assert np.any(ours["ca_state"] > 0)  # the buffer overflowed: not all columns are what they were at first
    expected, seen = histories(ours), histories(theirs)
    assert len(expected) == 8  # for each family both ends of two connections, one of them iperf3's own
    assert {flow: seen.get(flow) for flow in expected} == expected

    flow = flow_of(ours[ours["bytes_sent"].argmax()])
    later = pd.DataFrame(
        [(int(ours["t_us"].max()) + 1_000_000, 0, *flow)],
        columns=["t_us", "latency_us", "src", "dst", "src_port", "dst_port"],
    )
    joined = [join_windows(later, rows).drop(columns="tcp_age_us") for rows in (ours, theirs)]
    assert tuple(joined[0].loc[0, [f"tcp_{name}" for name in TRACED]]) == expected[flow][-1]
    pd.testing.assert_frame_equal(*joined)


def test_a_probe_that_does_not_compile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bcc_windows, "PROGRAM", "int probe(void *ctx) { return unheard_of; }")
    with pytest.raises(NodeError) as refused:
        BccWindows()
    assert refused.value.slug == "int.no_bcc"
    assert refused.value.why.startswith("Failed to compile BPF module")
