"""Theoretical throughput of a flow under loss, for comparison with measurements in the validation suite."""

from __future__ import annotations

import math
from typing import Final

MATHIS_PERIODIC: Final = math.sqrt(3 / 2)
"""Constant C of the Mathis law where exactly every (1/p)-th packet is lost: 1.22."""

MATHIS_RANDOM: Final = 1.3098
"""Constant C of the Mathis law where every packet is lost with the same probability, independently: 1.31.

In terms of acknowledged packets, W^2/2 grows by 1 per packet and falls to a quarter at random losses. In
equilibrium, X = p W^2/2 is the sum over k >= 0 of E_k / 4^k with E_k exponentially distributed of mean 1, and
the constant is sqrt(2) / E[X^(-1/2)], where E[X^(-1/2)] = sqrt(pi) prod over k >= 1 of (1 - 2^(1-2k)) / (1 -
4^-k). Source: Ott, Kemperman, Mathis, "The stationary behavior of ideal TCP congestion avoidance", 1996;
Mathis et al. 1997 give 1.31 in their table."""

CUBIC_C: Final = 0.4
"""C of RFC 9438 §5 [packets/s^3]."""

CUBIC_BETA: Final = 0.7
"""beta_cubic of RFC 9438 §4.6."""


def mathis_pkts(loss_ratio: float, constant: float = MATHIS_RANDOM, pkts_per_growth: float = 1.0) -> float:
    """Return Reno's mean window under loss, by the law of Mathis, Semke, Mahdavi and Ott.

    Args:
        loss_ratio: Loss probability of a packet, 0 < p <= 1; meant for at most a few percent, where loss is
            repaired without timeouts.
        constant: `MATHIS_RANDOM` or `MATHIS_PERIODIC`.
        pkts_per_growth: b, the number of acknowledged packets that count as one for window growth. 1 where
            the window grows with acknowledged packets, as in Linux, even with delayed ACKs
            (`tcp_reno_cong_avoid` gets the number of packets that an ACK covers; appropriate byte counting,
            RFC 3465). 2 where it grows with the number of ACKs, and the receiver delays ACKs.

    Returns:
        Mean window over time, C / sqrt(b p) [packets].

    Source: Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", CCR 27(3),
    1997, equation 3 and the table of constants: 1.22 and 1.31 for periodic and random loss, divided by
    sqrt(2) with delayed ACKs.
    """
    return constant / math.sqrt(pkts_per_growth * loss_ratio)


def aimd_pkts(loss_ratio: float, alpha_pkts: float, beta: float) -> float:
    """Return the mean window of additive increase and multiplicative decrease under periodic loss.

    Args:
        loss_ratio: One packet in 1 / `loss_ratio` is lost.
        alpha_pkts: Increase per RTT [packets].
        beta: Factor of the window at a loss, 0 < beta < 1.

    Returns:
        Mean window [packets].

    Source: RFC 9438 §4.3, AVG_AIMD; with 1 and 0.5 it is Reno's, that of `mathis_pkts` with
    `MATHIS_PERIODIC`.
    """
    return math.sqrt(alpha_pkts * (1 + beta) / (2 * (1 - beta) * loss_ratio))


def cubic_pkts(loss_ratio: float, rtt_s: float, c: float = CUBIC_C, beta: float = CUBIC_BETA) -> float:
    """Return CUBIC's mean window under periodic loss.

    Args:
        loss_ratio: One packet in 1 / `loss_ratio` is lost.
        rtt_s: RTT [s].
        c: CUBIC's C [packets/s^3].
        beta: CUBIC's beta.

    Returns:
        Mean window [packets]: that of the cubic curve, or of the Reno-friendly region where that is larger.

    Source: RFC 9438 §5.1, AVG_W_cubic; §4.3 for the Reno-friendly region (alpha = 3 (1 - beta) / (1 + beta)),
    as in the tables of §5.1.
    """
    curve = math.pow(c * (3 + beta) / (4 * (1 - beta)), 1 / 4) * math.pow(rtt_s / loss_ratio, 3 / 4)
    friendly = aimd_pkts(loss_ratio, 3 * (1 - beta) / (1 + beta), beta)
    return max(curve, friendly)


def throughput_bytes_per_s(window_pkts: float, mss_bytes: float, rtt_s: float) -> float:
    """Return the throughput of a window: one window per RTT.

    Args:
        window_pkts: Mean window over time [packets].
        mss_bytes: Payload of a packet [bytes].
        rtt_s: RTT [s], > 0.

    Returns:
        Rate [bytes/s].
    """
    return window_pkts * mss_bytes / rtt_s


def bbr_share(
    buffer_bdp: float, bdp_pkts: float, rtt_s: float, n_bbr: int = 1, probe_every_s: float = 10.0
) -> float:
    """Return the share of a link that BBRv1 flows together get next to any number of loss-based flows.

    The flows are limited by their window of twice the estimated BDP; the RTT in that estimate includes the
    other flows' part of the queue. While the flows probe for the RTT, they send nothing until their own part
    of the queue has drained.

    Args:
        buffer_bdp: Buffer in front of the link, X [BDP], > 0.
        bdp_pkts: Product of the link's rate and the RTT without queue [packets].
        rtt_s: RTT without queue [s].
        n_bbr: Number of BBR flows.
        probe_every_s: Time between two RTT probes [s].

    Returns:
        A share of the link, 0 to 1.

    Source: Ware, Mukerjee, Seshan, Sherry, "Modeling BBR's Interactions with Loss-Based Congestion Control",
    IMC 2019, equations 9 (share of the others), 10 and 11 (time spent probing).
    """
    others = max(0.0, 1 / 2 - 1 / (2 * buffer_bdp) - 4 * n_bbr / (buffer_bdp * bdp_pkts))
    probing_ratio = (buffer_bdp * rtt_s + 0.2 + rtt_s) / probe_every_s
    return (1 - others) * (1 - probing_ratio)


def padhye_pkts_per_s(loss_ratio: float, rtt_s: float, rto_s: float, pkts_per_growth: float = 1.0) -> float:
    """Return Reno's rate under loss with timeouts, by the model of Padhye, Firoiu, Towsley and Kurose.

    Args:
        loss_ratio: Loss probability of a packet, 0 < p < 1.
        rtt_s: RTT [s].
        rto_s: T0, the duration of a first timeout [s].
        pkts_per_growth: b, as in `mathis_pkts`.

    Returns:
        Sending rate [packets/s], lost packets included, as in the paper's equation.

    Source: Padhye et al., "Modeling TCP Throughput: A Simple Model and its Empirical Validation", SIGCOMM
    1998, equation 30 without a maximum window.
    """
    repaired_s = rtt_s * math.sqrt(2 * pkts_per_growth * loss_ratio / 3)
    timeouts = min(1.0, 3 * math.sqrt(3 * pkts_per_growth * loss_ratio / 8))
    return 1 / (repaired_s + rto_s * timeouts * loss_ratio * (1 + 32 * loss_ratio**2))
