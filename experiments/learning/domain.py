"""The distribution of paths that a learner trains on, as plain data.

An episode is one path. The properties of a path are drawn from ranges (domain randomisation, Tobin et al.,
IROS 2017), so that one policy covers unforeseen paths. The same seed gives the same paths.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final, Literal

import numpy as np
from msgspec import Meta

from experiments.netlab.cellular import Cellular, draw
from experiments.netlab.spec import Plain, PositiveFloat, PositiveInt, Ratio
from experiments.units import MBIT

Range = tuple[PositiveFloat, PositiveFloat]
"""Minimum and maximum, inclusive. Drawn log-uniformly: each factor of 2 is equally probable."""

Heuristic = Literal["cubic", "reno", "bbr"]
"""Congestion control between actions, where the learner does not control the window alone."""

TRACE_SECONDS: Final = 20.0
CELLULAR_MAX_BYTES_PER_S: Final = 48 * MBIT
"""Maximum mean rate of a trace, as cellular links are slow; ignored if all paths of the domain are faster."""


class Domain(Plain, frozen=True, omit_defaults=False):
    """A distribution of paths.

    All connections go from one host to another over one bottleneck.

    Attributes:
        rate_bytes_per_s: Rate of the bottleneck, IP packets; the mean, where the rate follows a trace.
        rtt_us: Propagation delay, both ways.
        buffer_bdp: Buffer of the bottleneck, in products of rate and `rtt_us`; at least 8 packets.
        loss_ratio: Probability that the bottleneck loses a packet, on lossy paths.
        lossy_share: Share of the paths that are lossy.
        cross_flows_max: Maximum number of competing CUBIC connections. Half of them pause now and then.
        crossed_share: Share of the paths with competing connections.
        aqm_share: Share of the paths with queue management: CoDel (RFC 8289) on half of them, RED on the
            others.
        aqm_target_us: Queueing delay that the queue management accepts: CoDel's target, RED's lower
            threshold. RED's upper threshold is three times as high.
        policed_share: Share of the paths with a policer in front of the bottleneck.
        policed_ratio: Rate of the policer, as a fraction of the bottleneck's rate.
        policer_us: Bucket of the policer, as time at its rate; at least 8 packets.
        traced_share: Share of the paths whose rate follows a trace like a cellular link's
            (`experiments.netlab.cellular`).
        traces: Number of traces to draw from.
        steered_share: Share of the paths on which only the learner controls the window (the policy alone); on
            the others CUBIC controls it between actions (the hybrid).
        mtp_us: Monitoring time period: the time from one action to the next.
        episode_us: Length of an episode, in virtual time.
    """

    rate_bytes_per_s: Range = (6 * MBIT, 192 * MBIT)
    rtt_us: Range = (10e3, 200e3)
    buffer_bdp: Range = (0.2, 4.0)
    loss_ratio: Range = (1e-4, 0.02)
    lossy_share: Ratio = 0.2
    cross_flows_max: Annotated[int, Meta(ge=0, le=16)] = 2
    crossed_share: Ratio = 0.25
    aqm_share: Ratio = 0.0
    aqm_target_us: Range = (2e3, 20e3)
    policed_share: Ratio = 0.0
    policed_ratio: Range = (0.3, 0.9)
    policer_us: Range = (10e3, 200e3)
    traced_share: Ratio = 0.2
    traces: PositiveInt = 24
    steered_share: Ratio = 0.0
    mtp_us: Range = (10e3, 200e3)
    episode_us: PositiveInt = 10_000_000


def single_path(
    *,
    rate_bytes_per_s: float,
    rtt_us: float,
    buffer_bdp: float = 1.0,
    mtp_us: float = 20e3,
    episode_us: int = 10_000_000,
) -> Domain:
    """Return a domain of one path without loss and cross traffic; arguments as in `Domain`."""
    return Domain(
        rate_bytes_per_s=(rate_bytes_per_s, rate_bytes_per_s),
        rtt_us=(rtt_us, rtt_us),
        buffer_bdp=(buffer_bdp, buffer_bdp),
        lossy_share=0.0,
        cross_flows_max=0,
        crossed_share=0.0,
        traced_share=0.0,
        mtp_us=(mtp_us, mtp_us),
        episode_us=episode_us,
    )


@cache
def traces_ms(domain: Domain) -> tuple[tuple[int, ...], ...]:
    """Return the traces of a domain: times at which 1,500 bytes can be sent [ms].

    Mean rates are spaced evenly on a logarithmic scale over those rates of the domain that cellular links can
    have; the seeds are 0, 1, ...
    """
    if domain.traced_share == 0:
        return ()
    low, high = domain.rate_bytes_per_s
    rates = np.geomspace(low, max(low, min(high, CELLULAR_MAX_BYTES_PER_S)), domain.traces)
    return tuple(
        tuple(draw(Cellular(mean_bytes_per_s=float(rate)), TRACE_SECONDS, seed).tolist())
        for seed, rate in enumerate(rates)
    )
