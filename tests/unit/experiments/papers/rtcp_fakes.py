"""Runs with recorded ACKs, without a kernel: a simulated sender for each flow."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path as Directory

import pandas as pd

from experiments.netlab.spec import Bernoulli
from experiments.papers.r_tcp.acks import DIRECTORY
from experiments.papers.two_flows import PAYLOAD_SHARE
from experiments.results import Result
from experiments.runs.shapes import Graph
from experiments.scenario import Scenario
from tests.unit.ccp_algs.rtcp.network import Bbr, Cubic, Path, Sender

HEADER = (
    *("ev", "time_us", "acked_bytes", "delivered", "lost", "min_rtt_us"),
    *("app_limited", "prior_delivered", "srtt_us", "inflight"),
)


def played(scenario: Scenario, directory: Directory, said: pd.DataFrame | None = None) -> Result:
    """Return the result of a run of bulk transfers; links do not change while it runs.

    Args:
        scenario: What is run.
        directory: Of the result.
        said: Its table of rate limits.
    """
    assert isinstance(scenario.topology, Graph)
    for number, flow in enumerate(scenario.flows):
        link = next(one for one in scenario.network.links if one.a == flow.sender).forward
        assert link.rate_bytes_per_s is not None
        bucket, loss, size = link.token_bucket, link.loss, link.buffer
        path = Path(
            rtt_s=2 * link.delay_us / 1e6,
            link=link.rate_bytes_per_s,
            buffer_bytes=(size and (size.bytes or 1500 * (size.packets or 0))) or 1e6,
            # The simulated sender counts payload.
            bucket_bytes=bucket.bucket_bytes * PAYLOAD_SHARE if bucket else 0,
            limit=bucket.rate_bytes_per_s * PAYLOAD_SHARE if bucket else float("inf"),
            loss_ratio=loss.ratio if isinstance(loss, Bernoulli) else 0.0,
            seed=number,
        )
        control = Bbr() if flow.algorithm.endswith("bbr") else Cubic()
        own = directory / DIRECTORY / flow.name
        own.mkdir(parents=True)
        with gzip.open(own / "10.0.0.1-1-10.0.0.2-2.csv.gz", "wt", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(HEADER)
            sender = Sender(path, control)
            for kind, now in sender.run(scenario.duration_s):
                time_us, delivered, lost, min_rtt_us = now
                srtt_us = round(sender.srtt_s * 1e6)
                rows.writerow(
                    [kind, time_us, 0, delivered, lost, min_rtt_us, 0, 0, srtt_us, sender.in_flight]
                )
    metadata = {"seed": scenario.seed, "name": scenario.name, "complete": True}
    return Result(
        directory, metadata, lambda _name: pd.DataFrame() if said is None else said, scenario.to_yaml()
    )
