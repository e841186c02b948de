"""R-TCP: the mobile operators of the paper's Table 1, emulated, and runs of many pairs of hosts.

RTT, bucket and rate are the table's. The radio link behind the limiter is ccplane's choice: 40 Mbit/s
(4G) or 100 Mbit/s (5G), with a buffer of 1000 packets, so that only the limiter drops. Limiters count
whole IP packets; errors of estimates refer to payload, 1448 of 1500 bytes. Buckets and rates are drawn
from normal distributions, within two standard deviations. Varying links change their rate every 500 ms,
log-normally, with a correlation time of 2 s.

from experiments.papers.r_tcp.operators import OPERATORS, download, side_by_side

operator = OPERATORS["op1"]
flows = [download(f"op1-{number}", "kernel/cubic", 4_000_000) for number in range(5)]
pairs = [operator.pair(number, [flow], duration_s=30) for number, flow in enumerate(flows)]
scenario = side_by_side("five downloads", pairs, duration_s=30)
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from experiments.events import ParamValue, SetLink
from experiments.netlab.spec import Buffer, Direction, Link, TokenBucket, Topology
from experiments.papers.two_flows import PAYLOAD_SHARE
from experiments.runs.shapes import Graph
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import Http
from experiments.units import MBIT

SENDER: Final = "sender"
RECEIVER: Final = "receiver"
LINK: Final = "link>"
"""Names of a pair's hosts and direction before `side_by_side`."""

BUFFER_PKTS: Final = 1000
"""Buffer of a radio link: large, as in base stations, so that only the limiter drops."""
SAMPLE_INTERVAL_US: Final = 200_000

_EXCHANGE: Final = "exchange"
"""Node that connects all pairs to one network; it does nothing to packets."""
_SPREAD: Final = 2.0
"""Maximum deviation of a limiter from the median, in standard deviations."""
_CHANGE_S: Final = 0.5
"""Interval between changes of a varying link's rate [s]."""
_MEMORY_S: Final = 2.0
"""Time in which the autocorrelation of a varying link's rate falls to 1/e [s]."""


@dataclass(frozen=True)
class Operator:
    """A mobile network.

    Attributes:
        name: Short name.
        rtt_us: RTT without queue [us].
        link_bytes_per_s: Mean rate of the radio link [bytes/s].
        bucket_bytes: Median size of the token bucket [bytes]; None: no limit.
        bucket_std_bytes: Standard deviation of the size between runs [bytes].
        rate_bytes_per_s: Median rate of tokens [bytes/s].
        rate_std_bytes_per_s: Standard deviation of the rate between runs [bytes/s].
        variation_ratio: Coefficient of variation of the radio link's rate.
    """

    name: str
    rtt_us: int
    link_bytes_per_s: float
    bucket_bytes: int | None = None
    bucket_std_bytes: float = 0.0
    rate_bytes_per_s: float = 0.0
    rate_std_bytes_per_s: float = 0.0
    variation_ratio: float = 0.0

    def limiter(self, number: int) -> TokenBucket | None:
        """Return the limiter of a run, determined by its number; None without a limit."""
        if self.bucket_bytes is None:
            return None
        drawn = random.Random(f"{self.name} limiter {number}")
        bucket_bytes, rate_bytes_per_s = (
            median + std * max(-_SPREAD, min(_SPREAD, drawn.gauss(0, 1)))
            for median, std in (
                (self.bucket_bytes, self.bucket_std_bytes),
                (self.rate_bytes_per_s, self.rate_std_bytes_per_s),
            )
        )
        return TokenBucket(round(rate_bytes_per_s), round(bucket_bytes))

    def pair(self, number: int, flows: Sequence[FlowSpec], duration_s: float) -> Pair:
        """Return a pair of hosts in this network."""
        forward = Direction(
            rate_bytes_per_s=self.link_bytes_per_s,
            delay_us=self.rtt_us // 2,
            buffer=Buffer(packets=BUFFER_PKTS),
            token_bucket=self.limiter(number),
        )
        return Pair(forward, flows, tuple(self._changes(number, duration_s)))

    def _changes(self, number: int, duration_s: float) -> Iterator[SetLink]:
        """Yield the changes of the link's rate, which is log-normal and autocorrelated."""
        if not self.variation_ratio:
            return
        drawn = random.Random(f"{self.name} link {number}")
        sigma = math.sqrt(math.log(1 + self.variation_ratio**2))
        kept = math.exp(-_CHANGE_S / _MEMORY_S)
        state = drawn.gauss(0, 1)
        for step in range(math.ceil(duration_s / _CHANGE_S)):
            rate = self.link_bytes_per_s * math.exp(sigma * state - sigma**2 / 2)
            yield SetLink(step * _CHANGE_S, LINK, {"rate_bytes_per_s": round(rate)})
            state = kept * state + math.sqrt(1 - kept**2) * drawn.gauss(0, 1)


OPERATORS: Final[Mapping[str, Operator]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Operator("op1", 36_000, 40 * MBIT, 733_000, 1_420, 2.07 * MBIT, 0.0004 * MBIT),
            Operator("op2", 18_000, 100 * MBIT, 385_000, 61_030, 1.3 * MBIT, 0.049 * MBIT),
            Operator("op3", 21_000, 100 * MBIT, 223_000, 27_050, 1.04 * MBIT, 0.0003 * MBIT),
            Operator("op4", 45_000, 40 * MBIT, variation_ratio=0.23),
            Operator("op5", 36_000, 40 * MBIT),
            Operator("op4m", 45_000, 40 * MBIT, variation_ratio=0.39),
        )
    }
)
"""Table 1; `op4m` is operator 4 in a bus or train (coefficients of variation: appendix K)."""

LIMITED: Final = tuple(name for name, one in OPERATORS.items() if one.bucket_bytes is not None)


@dataclass(frozen=True)
class Pair:
    """Two hosts and their link.

    Attributes:
        forward: From `SENDER` to `RECEIVER`; the way back has the same delay and no limit.
        flows: From `SENDER` to `RECEIVER`, with names that are unique among all pairs.
        events: Changes of `LINK`.
    """

    forward: Direction
    flows: Sequence[FlowSpec]
    events: Sequence[SetLink] = ()


def download(
    name: str,
    algorithm: str,
    *sizes_bytes: int,
    start_s: float = 0.0,
    gaps_s: Sequence[float] = (),
    params: Mapping[str, ParamValue] = MappingProxyType({}),
) -> FlowSpec:
    """Return a flow of downloads over one connection, for a `Pair`."""
    traffic = Http(objects=sizes_bytes, gaps_s=tuple(gaps_s))
    return FlowSpec(name, SENDER, RECEIVER, algorithm, dict(params), traffic, start_s)


def side_by_side(name: str, pairs: Sequence[Pair], duration_s: float, *, seed: int = 1) -> Scenario:
    """Return a run of many simultaneous pairs, which share only the machine; their rates are low.

    Args:
        name: Name of the scenario.
        pairs: The pairs; hosts become `s1`, `r1`, `s2`, ..., links `path1`, ...
        duration_s: Length of the run [s].
        seed: Seed of the run.
    """
    hosts: list[str] = []
    links: list[Link] = []
    flows: list[FlowSpec] = []
    events: list[SetLink] = []
    for number, pair in enumerate(pairs, 1):
        sender, receiver, link = f"s{number}", f"r{number}", f"path{number}"
        hosts += [sender, receiver]
        links.append(Link(link, sender, _EXCHANGE, pair.forward, Direction(delay_us=pair.forward.delay_us)))
        links.append(Link(f"last{number}", _EXCHANGE, receiver))
        flows += [msgspec.structs.replace(flow, sender=sender, receiver=receiver) for flow in pair.flows]
        events += [
            msgspec.structs.replace(event, link=f"{link}>")
            for event in pair.events
            if event.at_s <= duration_s
        ]
    return Scenario(
        name=name,
        topology=Graph.of(Topology(tuple(hosts), tuple(links), (_EXCHANGE,))),
        flows=tuple(flows),
        duration_s=duration_s,
        events=tuple(events),
        seed=seed,
        sample_interval_us=SAMPLE_INTERVAL_US,
    )


def limit_of(scenario: Scenario, flow: FlowSpec) -> tuple[float, float] | None:
    """Return the bucket [bytes] and rate [bytes/s] that limit a flow at the start, as TCP payload, or None.

    An estimate from ACKs should find these two values.
    """
    link = next(one for one in scenario.network.links if one.a == flow.sender)
    bucket = link.forward.token_bucket
    if bucket is None:
        return None
    return bucket.bucket_bytes * PAYLOAD_SHARE, bucket.rate_bytes_per_s * PAYLOAD_SHARE
