"""Parameters of R-TCP, with the defaults of the paper's Tables 2, 6 and 7 where it has them."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from ccplane.base.errors import ParamError

PPM: Final = 1_000_000
US_PER_S: Final = 1_000_000
MOST_CANDIDATES: Final = 17
"""Sizes that there is room for in the kernel."""
_MOST = 1000
"""No ratio, and no number of min-RTTs, is larger: products stay within 64 bits."""


RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "loss_window_min_rtts": (0, _MOST),
    "loss_ratio": (0, 1),
    "n_candidates": (3, MOST_CANDIDATES),
    "reduction_ratio": (0, 1),
    "convergence_min_rtts": (0, _MOST),
    "tolerance_ratio": (0, 1),
    "excess_buckets": (1, _MOST),
    "excess_buckets_anew": (1, _MOST),
    "excess_rates": (1, _MOST),
    "probe_every_rounds": (1, 1_000_000),
    "probe_rounds": (1, 1_000_000),
    "probe_gain_ratio": (0, 10),
    "margin_ratio": (0.1, 1),
    "floor_pkts": (1, 1000),
    "kept_s": (0, 10_000_000),
    "ipv4_prefix_bits": (0, 32),
    "ipv6_prefix_bits": (0, 128),
    "ports_per_client": (0, 65_536),
}
"""Least and largest value of each parameter."""


class Exact(NamedTuple):
    """The parameters as the detector computes with them: `struct rtcp_options` of native/ccp-rtcp.

    Names that end in _ppm are millionths.
    """

    loss_window_min_rtts_ppm: int
    loss_ratio_ppm: int
    n_candidates: int
    reduction_ratio_ppm: int
    convergence_min_rtts_ppm: int
    tolerance_ratio_ppm: int
    excess_buckets_ppm: int
    excess_buckets_anew_ppm: int
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


_C = struct.Struct("=20IQ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Parameters of the detector and of the limiter; Greek letters are the paper's.

    Attributes:
        loss_window_min_rtts: How long losses are counted, alpha [min-RTTs].
        loss_ratio: Share of lost packets above which estimation begins, beta.
        n_candidates: Bucket sizes that are weighed against each other, omega.
        reduction_ratio: Rate limit over mean throughput before the losses, below which the fall is abrupt,
            theta.
        convergence_min_rtts: How long the estimate has to stay, epsilon [min-RTTs].
        tolerance_ratio: How far the rate may change meanwhile and still count as the same. The paper has no
            tolerance; its authors' code has one by the coarse units it computes in.
        excess_buckets: A limit is gone if a bucket of so many times the estimated size could not have let
            through what was delivered. Ours.
        excess_buckets_anew: The same for a transfer that has not been found limited itself. Ours.
        excess_rates: That bucket is refilled at so many times the estimated rate at least. Ours.
        probe_every_rounds: How long a flow is kept at the rate limit before it probes, eta [sRTTs].
        probe_rounds: How long it probes [sRTTs].
        probe_gain_ratio: How much more than the rate limit it may send then, gamma.
        margin_ratio: Share of the rate limit that a pacing rate is bounded by, as in the authors' code.
        floor_pkts: A window is not bounded to less [packets]. Ours.
        pace_cubic: Whether CUBIC is paced at the limit besides having its window bounded. Ours.
        observe: Whether limits are found only, and nothing is bounded.
        kept_s: How long a limited client is remembered without a connection [s].
        ipv4_prefix_bits: How much of their addresses IPv4 connections to one client have in common. Ours, as
            the next two.
        ipv6_prefix_bits: The same of IPv6 addresses; a subscriber has a /64 at least.
        ports_per_client: Of each address, where NAT gives each subscriber a block of so many ports; 0: all.
        falls_apart: Whether connections that cannot share a bucket are clients of their own
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
    excess_buckets_anew: float = 5.0
    excess_rates: float = 2.0
    probe_every_rounds: int = 20
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
        """Refuse what cannot be."""
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                bound = f"at least {least:g} and at most {most:g}"
                raise ParamError("param.out_of_range", f"{name} cannot be {value}", name, fix=f"give {bound}")

    @functools.cached_property
    def exact(self) -> Exact:
        """The same as integers."""
        return Exact(*map(self._exact, Exact._fields))

    def _exact(self, name: str) -> int:
        if name == "kept_us":
            return round(self.kept_s * US_PER_S)
        if name.endswith("_ppm"):
            return round(float(getattr(self, name.removesuffix("_ppm"))) * PPM)
        return int(getattr(self, name))

    def to_bytes(self) -> bytes:
        """Return them as the programs in the kernel have them."""
        return _C.pack(*self.exact)
