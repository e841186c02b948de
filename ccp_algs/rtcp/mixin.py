"""Any algorithm, kept within the token bucket that limits its flow's client (R-TCP).

    @register("r_tcp_mine")
    class Mine(RateLimited, MyAlgorithm):
        caps_cwnd = True        # the algorithm steers by its window
        caps_rate = False       # ... not by its pacing rate

        def on_rate_limit(self, limit):      # optional
            if limit.seeks:
                ...                          # look for more than there was

`VectorRateLimited` is the same for a `VectorAlgorithm`; there it is `on_rate_limit(self, flow_id, limit)`.

The datapath finds the limit and bounds window and pacing rate where they are applied, on each ACK, whatever
fold program and Python ask for. All flows to the client are taken together, also those of other algorithms
derived from this class. The algorithm need not know of it. It is told when something changes, because some
grow slowly when a cap is raised.

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, section 5 and appendix M.

Deviation: none of its own; for those of the detector and of the limiter see detector.h and limiter.h of
native/ccp-rtcp.
"""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any, ClassVar, Final

from ccp_algs.api import Algorithm, Common, Decided, Flow, FlowInfo, VectorAlgorithm
from ccp_algs.params import Param
from ccp_algs.rtcp.limit import EXTENSION, LIMIT_STATES, RateLimit, letter
from ccp_algs.rtcp.options import RANGES, Options

_OPTIONS: Final = (*RANGES, "observe", "falls_apart")


def _option(name: str, doc: str, unit: str = "") -> Param[Any]:
    default, kind = getattr(Options, name), type(getattr(Options, name))
    if name not in RANGES:
        return Param(default, doc=doc)
    least, most = RANGES[name]
    return Param(default, min=kind(least), max=kind(most), unit=unit, doc=doc)


class _Limits(Common):
    """What both have: the parameters, and what is asked of the datapath."""

    extensions = (EXTENSION,)
    callbacks = ("on_rate_limit",)
    told_examples = MappingProxyType(
        {
            EXTENSION: tuple(
                RateLimit(state, 1 << 17, 1 << 18, 0, 1, "2001:db8::2").to_bytes() for state in LIMIT_STATES
            )
        }
    )
    caps_cwnd: ClassVar[bool] = False
    """Bound the window."""
    caps_rate: ClassVar[bool] = True
    """Bound the pacing rate; a flow that is not paced is paced while it is bounded."""

    loss_window_min_rtts = _option("loss_window_min_rtts", "how long losses are counted (alpha)", "min-RTTs")
    loss_ratio = _option("loss_ratio", "share of lost packets above which estimation begins (beta)")
    n_candidates = _option("n_candidates", "bucket sizes that are weighed against each other (omega)")
    reduction_ratio = _option("reduction_ratio", "rate limit over rate before, below which it fell (theta)")
    convergence_min_rtts = _option(
        "convergence_min_rtts", "how long the estimate has to stay (epsilon)", "min-RTTs"
    )
    tolerance_ratio = _option("tolerance_ratio", "how far the rate may change meanwhile")
    excess_buckets = _option("excess_buckets", "bucket sizes whose overdraft shows that a limit is gone")
    excess_buckets_anew = _option("excess_buckets_anew", "the same in a transfer not found limited itself")
    excess_rates = _option("excess_rates", "rates at which that bucket is refilled at least")
    probe_every_rounds = _option(
        "probe_every_rounds", "how long a cap stays before it is raised (eta)", "sRTTs"
    )
    probe_rounds = _option("probe_rounds", "how long it is raised", "sRTTs")
    probe_gain_ratio = _option("probe_gain_ratio", "how much it is raised (gamma)")
    margin_ratio = _option("margin_ratio", "share of the rate limit that pacing is bounded by")
    floor_pkts = _option("floor_pkts", "a window of a paced flow is not bounded to less", "segments")
    observe = _option("observe", "limits are found, and nothing is bounded")
    kept_s = _option("kept_s", "how long a limited client is remembered without a connection", "s")
    ipv4_prefix_bits = _option("ipv4_prefix_bits", "addresses with such a prefix in common are one client's")
    ipv6_prefix_bits = _option("ipv6_prefix_bits", "the same of IPv6; a subscriber has a /64")
    ports_per_client = _option("ports_per_client", "size of a client's block of ports; 0: it has all")
    falls_apart = _option("falls_apart", "connections that cannot share a bucket are clients of their own")

    def options(self) -> Options:
        """Return the parameters as they are now."""
        return Options(**{name: getattr(self, name) for name in _OPTIONS})

    def _limit(self, flow: Flow) -> None:
        flow.extend(EXTENSION, letter(self.options(), cwnd=self.caps_cwnd, rate=self.caps_rate))


def _told(flow: Flow, octets: bytes) -> RateLimit:
    """Tell listeners what the extension tells of a flow, and return it."""
    limit = RateLimit.from_bytes(octets)
    flow.tell("rate_limit:changed", **dataclasses.asdict(limit))
    return limit


class RateLimited(_Limits, Algorithm):
    """In front of an algorithm in the list of bases; see the module. Parameters are those of `Options`."""

    def on_create(self, info: FlowInfo) -> None:
        """Look for limits from the first ACK on."""
        super().on_create(info)
        self._limit(self.flow)

    def on_params(self, names: frozenset[str]) -> None:
        """Look for limits with the parameters that were set."""
        super().on_params(names)
        if not names.isdisjoint(_OPTIONS):
            self._limit(self.flow)

    def on_extension(self, extension: str, octets: bytes) -> None:
        """Take what is known of the client's limit, and tell it to listeners and to the algorithm."""
        super().on_extension(extension, octets)
        if extension == EXTENSION:
            self.on_rate_limit(_told(self.flow, octets))

    def on_rate_limit(self, limit: RateLimit) -> None:
        """Learn that what is known of the client's rate limit has become another."""


class VectorRateLimited(_Limits, VectorAlgorithm):
    """The same in front of an algorithm with one instance for all flows."""

    def on_create(self, info: FlowInfo) -> None:
        """Look for limits from the flow's first ACK on."""
        super().on_create(info)
        self._limit(self.flows[info.flow_id])

    def on_params(self, names: frozenset[str]) -> Decided:
        """Look for limits of all flows with the parameters that were set."""
        decided = super().on_params(names)
        if not names.isdisjoint(_OPTIONS):
            for flow in self.flows.values():
                self._limit(flow)
        return decided

    def on_extension(self, flow_id: int, extension: str, octets: bytes) -> None:
        """Take what is known of a client's limit, and tell it to listeners and to the algorithm."""
        super().on_extension(flow_id, extension, octets)
        if extension == EXTENSION:
            self.on_rate_limit(flow_id, _told(self.flows[flow_id], octets))

    def on_rate_limit(self, flow_id: int, limit: RateLimit) -> None:
        """Learn that what is known of the rate limit of a flow's client has become another.

        Args:
            flow_id: The flow; `self.flows[flow_id]` sets what is its own.
            limit: What is known now.
        """
