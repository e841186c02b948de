"""Runs with R-TCP, on real sockets: rate limits in the result, and the ACKs that were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.netlab.spec import Direction, TokenBucket
from experiments.papers.r_tcp.operators import Pair, download, side_by_side
from experiments.papers.r_tcp.runs import transfers
from experiments.run import run

RATE_BYTES_PER_S = 250_000
BUCKET_BYTES = 300_000
SIZE_BYTES = 1_000_000
RECORDED = "r1-1-rtcp_cubic"


@pytest.mark.timeout(120)
def test_a_run_reports_of_rate_limits_in_the_kernel_and_in_the_agent(tmp_path: Path) -> None:
    forward = Direction(
        rate_bytes_per_s=5e6, delay_us=10_000, token_bucket=TokenBucket(RATE_BYTES_PER_S, BUCKET_BYTES)
    )
    flows = [
        download(RECORDED, "rtcp/cubic", SIZE_BYTES, params={"record": True}),
        download("r1-1-r_tcp_bbr3", "r_tcp_bbr3", SIZE_BYTES),
        download("r1-1-kernel_cubic", "kernel/cubic", SIZE_BYTES),
    ]
    result = run(side_by_side("limited", [Pair(forward, [flow]) for flow in flows], 12.0), tmp_path / "out")
    found = transfers(result).set_index("flow")
    assert found["limited_ratio"].tolist() == [1, 1, 0]
    assert found.loc[[flow.name for flow in flows[:2]], "rate_error_pct"].abs().max() < 10
    assert result.table("rate_limits")["state"].isin(["limited", "capped", "probing", "raised", "gone"]).all()
    assert result.flows["congestion"].tolist()[:1] == ["rtcp_cubic"]
    acks = [*(tmp_path / "out" / "acks").rglob("*.csv.gz")]
    assert [file.parent.name for file in acks] == [RECORDED]
