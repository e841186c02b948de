"""Parameters of R-TCP; the defaults are from the paper's Tables 2, 6 and 7 where it has them."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from ccplane.base.errors import ParamError

PPM: Final = 1_000_000
US_PER_S: Final = 1_000_000
MAX_CANDIDATES: Final = 17
"""Maximum number of candidate bucket sizes for which the kernel has space."""
_MAX = 1000
"""Maximum of ratios and of numbers of min-RTTs: products stay within 64 bits."""


RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "loss_window_min_rtts": (0, _MAX),
    "loss_ratio": (0, 1),
    "n_candidates": (3, MAX_CANDIDATES),
    "reduction_ratio": (0, 1),
    "convergence_min_rtts": (0, _MAX),
    "tolerance_ratio": (0, 1),
    "excess_buckets": (1, _MAX),
    "excess_buckets_again": (1, _MAX),
    "excess_rates": (1, _MAX),
    "probe_every_rounds": (1, 1_000_000),
    "probe_every_pkts": (0, 1_000_000),
    "probe_rounds": (1, 1_000_000),
    "probe_gain_ratio": (0, 10),
    "margin_ratio": (0.1, 1),
    "floor_pkts": (1, 1000),
    "kept_s": (0, 10_000_000),
    "ipv4_prefix_bits": (0, 32),
    "ipv6_prefix_bits": (0, 128),
    "ports_per_client": (0, 65_536),
}
"""Minimum and maximum of each parameter."""


class Exact(NamedTuple):
    """The parameters in the detector's units: `struct rtcp_options` of native/ccp-rtcp.

    Names that end in _ppm are millionths.
    """

    loss_window_min_rtts_ppm: int
    loss_ratio_ppm: int
    n_candidates: int
    reduction_ratio_ppm: int
    convergence_min_rtts_ppm: int
    tolerance_ratio_ppm: int
    excess_buckets_ppm: int
    excess_buckets_again_ppm: int
    excess_rates_ppm: int
    probe_every_rounds: int
    probe_rounds: int
    probe_gain_ratio_ppm: int
    margin_ratio_ppm: int
    floor_pkts: int
    pace_cubic: int
    observe: int
    ipv4_prefix_bits: int
    ipv6_prefix_bits: int
    ports_per_client: int
    falls_apart: int
    kept_us: int
    probe_every_pkts: int


_C = struct.Struct("=20IQQ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Parameters of the detector and of the limiter; Greek letters mark the paper's, "added" ccplane's.

    Attributes:
        loss_window_min_rtts: Window over which losses are counted, alpha [min-RTTs].
        loss_ratio: Share of lost packets above which estimation begins, beta.
        n_candidates: Number of candidate bucket sizes that are compared, omega.
        reduction_ratio: Ratio of the rate limit to the mean throughput before the losses, below which the
            fall is abrupt, theta.
        convergence_min_rtts: Time that the estimate must be stable, epsilon [min-RTTs].
        tolerance_ratio: Maximum relative change of the rate in a stable estimate. The paper has no tolerance;
            its authors' code has one because it computes in coarse units.
        excess_buckets: A limit was lifted if a bucket of this many times the estimated size could not have
            let through what was delivered. Added.
        excess_buckets_again: The same for a transfer that was not itself found limited. Added.
        excess_rates: That bucket is refilled at this many times the estimated rate, at least. Added.
        probe_every_rounds: Time that a flow is bounded by the rate limit before it probes, eta [sRTTs].
        probe_every_pkts: Number of packets that must also be delivered before that. Added; the paper: 0.
        probe_rounds: Duration of a probe [sRTTs].
        probe_gain_ratio: Fraction above the rate limit that it may send then, gamma.
        margin_ratio: Bound of the pacing rate, as a fraction of the rate limit, as in the authors' code.
        floor_pkts: Minimum bound of a window [packets]. Added.
        pace_cubic: Pace CUBIC at the limit, in addition to bounding its window. Added.
        observe: Only detect limits, without bounding flows.
        kept_s: Time that a limited client is remembered without a connection [s].
        ipv4_prefix_bits: Length of the address prefix that IPv4 connections of one client share. Added, like
        the
            next two.
        ipv6_prefix_bits: The same for IPv6 addresses; a subscriber has at least a /64.
        ports_per_client: Number of ports per client, where NAT gives each subscriber a block of ports; 0:
            all.
        falls_apart: Treat connections that cannot share a bucket as separate clients
            (native/ccp-rtcp/src/core/member.h).

    Raises:
        ParamError: `param.out_of_range`.
    """

    loss_window_min_rtts: float = 7.0
    loss_ratio: float = 0.2
    n_candidates: int = 9
    reduction_ratio: float = 0.6
    convergence_min_rtts: float = 10.0
    tolerance_ratio: float = 0.02
    excess_buckets: float = 1.0
    excess_buckets_again: float = 5.0
    excess_rates: float = 2.0
    probe_every_rounds: int = 20
    probe_every_pkts: int = 200
    probe_rounds: int = 3
    probe_gain_ratio: float = 0.2
    margin_ratio: float = 0.99
    floor_pkts: int = 3
    pace_cubic: bool = True
    observe: bool = False
    kept_s: float = 600.0
    ipv4_prefix_bits: int = 32
    ipv6_prefix_bits: int = 64
    ports_per_client: int = 0
    falls_apart: bool = True

    def __post_init__(self) -> None:
        """Check the bounds."""
        for name, (minimum, maximum) in RANGES.items():
            value = getattr(self, name)
            if not minimum <= value <= maximum:
                bound = f"at least {minimum:g} and at most {maximum:g}"
                raise ParamError(
                    "param.out_of_range", f"{name} cannot be {value}", name, fix=f"choose {bound}"
                )

    @functools.cached_property
    def exact(self) -> Exact:
        """The parameters in the detector's units, as integers."""
        return Exact(*map(self._exact, Exact._fields))

    def _exact(self, name: str) -> int:
        if name == "kept_us":
            return round(self.kept_s * US_PER_S)
        if name.endswith("_ppm"):
            return round(float(getattr(self, name.removesuffix("_ppm"))) * PPM)
        return int(getattr(self, name))

    def to_bytes(self) -> bytes:
        """Return the parameters as a `struct rtcp_options`."""
        return _C.pack(*self.exact)
