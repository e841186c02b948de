"""R-TCP: subscribers behind one address, some limited, each by a bucket of its own. The paper has no such.

A server sends to twenty subscribers. Ten are limited, with buckets and rates drawn for each, and download
all the time. Of the others five do, too, and five fetch an object a second. With and without R-TCP there is
a server of its own, and the same subscribers.

The subscribers' addresses have a prefix in common that R-TCP is told to take for one client: as behind NAT
that gives them ports at random, it cannot tell by the ends of a connection whose it is.
`tests/kernel/test_rtcp_nat.py` has real NAT.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pandas as pd

from ccp_algs.rtcp.limit import LIMITED_STATES
from experiments.events import ParamValue
from experiments.metrics import NAN
from experiments.netlab.spec import Buffer, Direction, Link, TokenBucket, Topology
from experiments.papers.estimates import IN_RUN, over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.runs import BBR, BBR3, LIMITED_BY, apart, conditions
from experiments.papers.tables import Check, Table
from experiments.papers.two_flows import PAYLOAD_SHARE
from experiments.papers.variants import KERNEL
from experiments.plots import label
from experiments.results import Result
from experiments.runs.shapes import Graph
from experiments.scenario import Flow, Scenario
from experiments.sweep import Grid
from experiments.traffic.spec import Http
from experiments.units import MBIT

PREFIX_BITS: Final = 16
"""All hosts of the lab have it in common."""
SUBSCRIBERS: Final = 20
LIMITED: Final = 10
FETCHING: Final = 5
"""So many of those that nothing limits fetch objects."""
LINK_BYTES_PER_S: Final = 10 * MBIT
RTT_US: Final = 36_000
RATES_MBIT: Final = (0.5, 3.0)
BUCKETS_BYTES: Final = (100_000, 700_000)
OBJECT_BYTES: Final = 250_000
GAP_S: Final = 1.0
LATER_S: Final = 4.0
"""Those that nothing limits begin so much later: by then R-TCP would have found a limit of all [s]."""
KEPT: Final = 0.95
"""What is to be left of their goodput, at least."""

LIMITED_KIND, BULK, OBJECTS = "limited", "bulk", "objects"
_WITH: Final = {**LIMITED_BY, "cubic": "r_tcp_cubic"}
_ENDLESS: Final = Http(objects=(1 << 40,))
_NAT: Final = "nat"


def subscriber(number: int, drawn: random.Random) -> tuple[str, Direction]:
    """Return what a subscriber does, and its line.

    Args:
        number: From 0.
        drawn: Where the limiter comes from.
    """
    kind, bucket = BULK, None
    if number < LIMITED:
        low, high = (math.log(rate * MBIT) for rate in RATES_MBIT)
        rate_bytes_per_s = math.exp(drawn.uniform(low, high))
        kind, bucket = (
            LIMITED_KIND,
            TokenBucket(round(rate_bytes_per_s), round(drawn.uniform(*BUCKETS_BYTES))),
        )
    elif number >= SUBSCRIBERS - FETCHING:
        kind = OBJECTS
    return kind, Direction(
        LINK_BYTES_PER_S, delay_us=RTT_US // 2, buffer=Buffer(bdp=2.0), token_bucket=bucket
    )


def subscribers(
    algorithm: str, duration_s: float, datapath: str, falls_apart: bool, numbers: Sequence[int]
) -> Scenario:
    """Return a run with the same subscribers twice, without R-TCP and with it.

    Args:
        algorithm: Congestion control without R-TCP.
        duration_s: Length of the run [s].
        datapath: As in scenarios.
        falls_apart: R-TCP's option.
        numbers: Of the repeat.
    """
    hosts: list[str] = []
    links: list[Link] = []
    flows: list[Flow] = []
    params: dict[str, ParamValue] = {"ipv4_prefix_bits": PREFIX_BITS, "falls_apart": falls_apart}
    for side, name in (("p", algorithm), ("u", _WITH[algorithm])):
        drawn = random.Random(f"subscribers {numbers[0]}")
        server = f"server-{side}"
        hosts.append(server)
        links.append(Link(f"way-{side}", server, _NAT))
        for number in range(SUBSCRIBERS):
            kind, line = subscriber(number, drawn)
            host = f"{side}{number}"
            start_s = round(drawn.uniform(0, 1) + (LATER_S if kind != LIMITED_KIND else 0), 2)
            count = math.ceil(duration_s / GAP_S)
            fetched = Http(objects=(OBJECT_BYTES,) * count, gaps_s=(GAP_S,) * (count - 1))
            hosts.append(host)
            links.append(Link(f"line-{host}", _NAT, host, line, Direction(delay_us=line.delay_us)))
            flows.append(
                Flow(
                    f"{kind}-{number}-{side}",
                    server,
                    host,
                    name,
                    params if side == "u" else {},
                    fetched if kind == OBJECTS else _ENDLESS,
                    start_s,
                )
            )
    return Scenario(
        name="R-TCP: subscribers behind one address",
        topology=Graph.of(Topology(tuple(hosts), tuple(links), (_NAT,))),
        flows=tuple(flows),
        duration_s=duration_s,
        seed=numbers[0],
        datapath=datapath,
    )


def kept(result: Result) -> pd.DataFrame:
    """Return a row for each subscriber of a run.

    Returns:
        `algorithm` without R-TCP, `falls_apart`, `kind`; `kept_ratio` of its goodput with R-TCP by that
        without; `retrans_pct` with R-TCP and `retrans_without_pct`; `found_ratio`, 1 if a limit was found
        of it alone, else 0; `rate_error_pct` of that.
    """
    summary = result.flows.set_index("flow")
    fetched = result.objects.groupby("flow")
    goodput = summary["goodput_bytes_per_s"].copy()
    by_objects = fetched["size_bytes"].sum() / fetched["completion_s"].sum()
    goodput.update(by_objects[by_objects.index.str.startswith(OBJECTS)])
    told = result.rate_limits
    lines = {link.b: link.forward for link in result.scenario.network.links}
    rows = []
    plain, under = (result.scenario.flows[at : at + SUBSCRIBERS] for at in (0, SUBSCRIBERS))
    for without, flow in zip(plain, under, strict=True):
        row: dict[str, Any] = {"algorithm": without.algorithm, "falls_apart": flow.params["falls_apart"]}
        row["kind"] = flow.name.partition("-")[0]
        row["kept_ratio"] = goodput.get(flow.name, NAN) / goodput.get(without.name, NAN)
        row["retrans_without_pct"] = summary["retrans_pct"].get(without.name, NAN)
        row["retrans_pct"] = summary["retrans_pct"].get(flow.name, NAN)
        own = told[(told["flow"] == flow.name) & (told["state"].isin(LIMITED_STATES))] if len(told) else told
        row["found_ratio"] = float(len(own) > 0)
        bucket = lines[flow.receiver].token_bucket
        row["rate_error_pct"] = NAN
        if len(own) and bucket is not None:
            found = own["rate_bytes_per_s"].iloc[-1] / PAYLOAD_SHARE
            row["rate_error_pct"] = 100 * (found / bucket.rate_bytes_per_s - 1)
        rows.append(row)
    return pd.DataFrame(rows)


def _grids(size: Size) -> list[Grid]:
    compared = (KERNEL, BBR) if size.datapath == "ebpf" else ("cubic", BBR3)
    return [
        grid
        for falls_apart in (True, False)
        for algorithm in compared
        for grid in apart(
            f"{size.name}-{'apart' if falls_apart else 'together'}-{algorithm.replace('/', '_')}",
            size.times(6, 10),
            partial(subscribers, algorithm, size.seconds(20, 40), size.datapath, falls_apart),
        )
    ]


def _findings(runs: Runs) -> Findings:
    rows = runs.rows(kept)
    values = ["kept_ratio", "retrans_without_pct", "retrans_pct", "found_ratio", "rate_error_pct"]
    by = ["falls_apart", "algorithm", "kind"]
    return Findings([Table.of(rows, "Twenty subscribers behind one address", by, values)], {}, checks(rows))


def checks(rows: pd.DataFrame) -> list[Check]:
    """Return what must show: those that nothing limits keep their goodput.

    Args:
        rows: As `kept`, of one or more runs.
    """
    found = []
    free = rows[(rows["kind"] != LIMITED_KIND) & rows["falls_apart"].astype(bool)]
    for algorithm, own in free.groupby("algorithm", sort=False):
        said = f"{label(str(algorithm))}: part of its goodput that who is not limited keeps"
        found.append(Check(said, over_runs(own, "kept_ratio"), low=KEPT, name=f"kept, {algorithm}"))
        least = own.groupby(IN_RUN)[["kept_ratio"]].min()
        said = f"{said}, the one that keeps least"
        found.append(Check(said, over_runs(least, "kept_ratio"), low=KEPT, name=f"least kept, {algorithm}"))
    return found


SHARED_ADDRESS: Final = Part(
    "shared-address",
    "subscribers behind one address, limited differently or not at all",
    _grids,
    _findings,
    conditions,
)
