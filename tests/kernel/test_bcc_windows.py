"""The bcc variant of the window trace says what the CO-RE one says, on hosts that have bcc and headers."""

from __future__ import annotations

import numpy as np
import pytest

from datapath import _native
from experiments.netlab import Path, iperf3
from telemetry.inband.bcc_windows import BccWindows, why_not

pytestmark = [
    pytest.mark.kernel(struct_ops=False),
    pytest.mark.skipif(why_not() is not None, reason=f"bcc cannot run here: {why_not()}"),
]


def test_both_traces_see_the_same_windows(wire: Path) -> None:
    with BccWindows() as probe, _native.TcpTrace(0) as trace:
        iperf3(wire.sender, wire.receiver, congestion="cubic", total_bytes=1_000_000, family="ipv6")
        ours, theirs = trace.drain(), probe.drain()
    assert probe.dropped == trace.dropped == 0
    names = ["sport", "dport", "cwnd_bytes"]
    sent = ours[(ours["state"] == 1) & (ours["bytes_sent"] > 0)]
    assert len(sent) > 0
    seen = {tuple(int(row[name]) for name in names) for row in theirs}
    assert {tuple(int(row[name]) for name in names) for row in sent} <= seen
    assert np.all(theirs["mss_bytes"] > 0)
