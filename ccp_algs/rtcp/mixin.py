"""Bound any algorithm by the token bucket that limits its flow's client (R-TCP).

    @register("r_tcp_mine")
    class Mine(RateLimited, MyAlgorithm):
        caps_cwnd = True        # the algorithm controls its window
        caps_rate = False       # ... and not its pacing rate

        def on_rate_limit(self, limit):      # optional
            if limit.seeks:
                ...                          # probe for more bandwidth

`VectorRateLimited` is the class for a `VectorAlgorithm`; its method is `on_rate_limit(self, flow_id, limit)`.

The datapath finds the limit, and bounds window and pacing rate where they are applied, on each ACK, whatever
the fold program and Python set. All flows to the client share the limit, including those of other algorithms
derived from this class. The algorithm need not react to the limit. `on_rate_limit` is called at each change
because some algorithms grow slowly after a cap is raised.

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, section 5 and appendix M.

Deviations: only those of the detector and of the limiter, see detector.h and limiter.h of native/ccp-rtcp.
"""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any, ClassVar, Final

from ccp_algs.api import Algorithm, Common, Decided, FlowHandle, FlowInfo, VectorAlgorithm
from ccp_algs.params import Param
from ccp_algs.rtcp.limit import EXTENSION, LIMIT_STATES, RateLimit, message
from ccp_algs.rtcp.options import RANGES, Options

_OPTIONS: Final = (*RANGES, "observe", "falls_apart")


def _option(name: str, doc: str, unit: str = "") -> Param[Any]:
    default, kind = getattr(Options, name), type(getattr(Options, name))
    if name not in RANGES:
        return Param(default, doc=doc)
    minimum, maximum = RANGES[name]
    return Param(default, min=kind(minimum), max=kind(maximum), unit=unit, doc=doc)


class _Limits(Common):
    """The common part: the parameters, and the messages to the datapath.

    Use it for rate-limited clients. Their token buckets drop what exceeds the rate.
    Do not use it for links whose rate collapses. A rate that falls below 0.6 of its former value with heavy
        loss looks like a rate limit until it recovers.
    Evidence: 1 of 11 claims tested on real sockets hold, 9 of 51 in the simulator
        (docs/papers/r-tcp.md).
    More: docs/rtcp.md
    """

    extensions = (EXTENSION,)
    callbacks = ("on_rate_limit",)
    message_examples = MappingProxyType(
        {
            EXTENSION: tuple(
                RateLimit(state, 1 << 17, 1 << 18, 0, 1, "2001:db8::2").to_bytes() for state in LIMIT_STATES
            )
        }
    )
    caps_cwnd: ClassVar[bool] = False
    """Bound the window."""
    caps_rate: ClassVar[bool] = True
    """Bound the pacing rate; an unpaced flow is then paced while it is bounded."""

    loss_window_min_rtts = _option(
        "loss_window_min_rtts", "window over which losses are counted (alpha)", "min-RTTs"
    )
    loss_ratio = _option("loss_ratio", "share of lost packets above which estimation begins (beta)")
    n_candidates = _option("n_candidates", "number of candidate bucket sizes that are compared (omega)")
    reduction_ratio = _option(
        "reduction_ratio", "ratio of the limit to the rate before, below which the rate fell abruptly (theta)"
    )
    convergence_min_rtts = _option(
        "convergence_min_rtts", "time that the estimate must be stable (epsilon)", "min-RTTs"
    )
    tolerance_ratio = _option("tolerance_ratio", "maximum relative change of the rate during that time")
    excess_buckets = _option(
        "excess_buckets", "overdraft, in bucket sizes, that shows that a limit was lifted"
    )
    excess_buckets_again = _option(
        "excess_buckets_again", "as excess_buckets, in a transfer that was not itself found limited"
    )
    excess_rates = _option("excess_rates", "minimum refill rate of that bucket, in estimated rates")
    probe_every_rounds = _option(
        "probe_every_rounds", "time that a cap stays before it is raised (eta)", "sRTTs"
    )
    probe_every_pkts = _option(
        "probe_every_pkts", "number of packets that must also be delivered before a cap is raised", "packets"
    )
    probe_rounds = _option("probe_rounds", "time that a cap is raised", "sRTTs")
    probe_gain_ratio = _option("probe_gain_ratio", "fraction by which a cap is raised (gamma)")
    margin_ratio = _option("margin_ratio", "bound of the pacing rate, as a fraction of the rate limit")
    floor_pkts = _option("floor_pkts", "minimum bound of a paced flow's window", "segments")
    observe = _option("observe", "only detect limits, without bounding flows")
    kept_s = _option("kept_s", "time that a limited client is remembered without a connection", "s")
    ipv4_prefix_bits = _option(
        "ipv4_prefix_bits", "IPv4 addresses with a common prefix of this length are one client"
    )
    ipv6_prefix_bits = _option(
        "ipv6_prefix_bits",
        "IPv6 addresses with a common prefix of this length are one client (subscribers: 64)",
    )
    ports_per_client = _option(
        "ports_per_client", "size of a client's block of ports behind NAT; 0: all ports"
    )
    falls_apart = _option("falls_apart", "treat connections that cannot share a bucket as separate clients")

    def options(self) -> Options:
        """Return the present parameters."""
        return Options(**{name: getattr(self, name) for name in _OPTIONS})

    def _limit(self, flow: FlowHandle) -> None:
        flow.extend(EXTENSION, message(self.options(), cwnd=self.caps_cwnd, rate=self.caps_rate))


def _reported(flow: FlowHandle, message: bytes) -> RateLimit:
    """Emit an event with the extension's message about a flow, and return the message."""
    limit = RateLimit.from_bytes(message)
    flow.emit("rate_limit:changed", **dataclasses.asdict(limit))
    return limit


class RateLimited(_Limits, Algorithm):
    """Base class that bounds an algorithm; list it before the algorithm's class.

    Its parameters are those of `Options`; see the module.
    """

    def on_create(self, info: FlowInfo) -> None:
        """Look for limits from the first ACK on."""
        super().on_create(info)
        self._limit(self.flow)

    def on_params(self, names: frozenset[str]) -> None:
        """Look for limits with the changed parameters."""
        super().on_params(names)
        if not names.isdisjoint(_OPTIONS):
            self._limit(self.flow)

    def on_extension(self, extension: str, message: bytes) -> None:
        """Pass on the client's limit, as far as known, as an event and to the algorithm."""
        super().on_extension(extension, message)
        if extension == EXTENSION:
            self.on_rate_limit(_reported(self.flow, message))

    def on_rate_limit(self, limit: RateLimit) -> None:
        """Handle a change of the client's rate limit, or new knowledge about it."""


class VectorRateLimited(_Limits, VectorAlgorithm):
    """As `RateLimited`, for an algorithm with one instance for all flows."""

    def on_create(self, info: FlowInfo) -> None:
        """Look for limits from the flow's first ACK on."""
        super().on_create(info)
        self._limit(self.flows[info.flow_id])

    def on_params(self, names: frozenset[str]) -> Decided:
        """Look for limits of all flows with the changed parameters."""
        decided = super().on_params(names)
        if not names.isdisjoint(_OPTIONS):
            for flow in self.flows.values():
                self._limit(flow)
        return decided

    def on_extension(self, flow_id: int, extension: str, message: bytes) -> None:
        """Pass on a client's limit, as far as known, as an event and to the algorithm."""
        super().on_extension(flow_id, extension, message)
        if extension == EXTENSION:
            self.on_rate_limit(flow_id, _reported(self.flows[flow_id], message))

    def on_rate_limit(self, flow_id: int, limit: RateLimit) -> None:
        """Handle a change of the rate limit of a flow's client, or new knowledge about it.

        Args:
            flow_id: The flow; use `self.flows[flow_id]` to control it.
            limit: The limit, as known now.
        """
