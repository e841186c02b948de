from __future__ import annotations

import math

import numpy as np
import pytest

from experiments import theory


def test_the_periodic_constant_is_that_of_a_sawtooth() -> None:
    # A window from 20 to 40 packets: 21 RTTs of mean 30 carry 630 packets, and one is lost.
    assert theory.mathis_pkts(1 / 630, theory.MATHIS_PERIODIC) == pytest.approx(30, rel=0.03)


def test_the_random_constant_is_that_of_its_series() -> None:
    k = np.arange(1, 60)
    mean = math.sqrt(math.pi) * np.prod((1 - 2.0 ** (1 - 2 * k)) / (1 - 4.0**-k))
    assert math.sqrt(2) / mean == pytest.approx(theory.MATHIS_RANDOM, abs=5e-5)


def test_the_random_constant_is_that_of_a_window_that_meets_random_losses() -> None:
    # W grows by 1/W per packet and halves at random; a packet takes 1/W of an RTT.
    rng = np.random.default_rng(1)
    p, window_pkts, rtts, packets = 1e-4, 100.0, 0.0, 0
    for gap in rng.geometric(p, size=20_000):
        grown_pkts = math.sqrt(window_pkts**2 + 2 * gap)
        rtts += grown_pkts - window_pkts  # the window grows by one per RTT
        packets += gap
        window_pkts = grown_pkts / 2
    assert packets / rtts * math.sqrt(p) == pytest.approx(theory.MATHIS_RANDOM, rel=0.01)


def test_mathis_by_hand() -> None:
    assert theory.mathis_pkts(0.01) == pytest.approx(13.098)
    assert theory.mathis_pkts(0.01, theory.MATHIS_PERIODIC) == pytest.approx(12.247, abs=1e-3)
    assert theory.mathis_pkts(0.0001, theory.MATHIS_PERIODIC, pkts_per_growth=2) == pytest.approx(
        86.60, abs=0.01
    )


def test_a_window_carries_itself_once_an_rtt() -> None:
    assert theory.throughput_bytes_per_s(13.098, 1448, 0.05) == pytest.approx(379_318, rel=1e-4)


def test_aimd_with_renos_constants_is_mathis() -> None:
    for p in (1e-2, 1e-4):
        assert theory.aimd_pkts(p, 1, 0.5) == pytest.approx(theory.mathis_pkts(p, theory.MATHIS_PERIODIC))


@pytest.mark.parametrize(
    ("loss_ratio", "rtt_s", "window_pkts"),
    [
        # 1.054 (RTT / p)^(3/4), the form of RFC 9438 §5.1 for beta = 0.7 and C = 0.4
        (1e-4, 0.1, 187.4),
        (1e-5, 0.1, 1053.8),
        (1e-6, 0.1, 5926),
        (1e-7, 0.01, 5926),
        # sqrt(3 / 2p): friendly to Reno
        (1e-2, 0.1, 12.25),
        (1e-3, 0.1, 38.73),
        (1e-4, 0.01, 122.5),
        (1e-6, 0.01, 1224.7),
    ],
)
def test_cubic_by_hand(loss_ratio: float, rtt_s: float, window_pkts: float) -> None:
    assert theory.cubic_pkts(loss_ratio, rtt_s) == pytest.approx(window_pkts, rel=1e-3)


def test_cubics_mean_is_that_of_its_curve() -> None:
    # W(t) = C (t - K)^3 + W_max from the loss (t = 0) to the next (t = K), with 1/p packets.
    rtt_s, w_max_pkts = 0.1, 400.0
    k_s = (w_max_pkts * (1 - theory.CUBIC_BETA) / theory.CUBIC_C) ** (1 / 3)
    t_s = (np.arange(100_000) + 0.5) / 100_000 * k_s
    mean_pkts = float(np.mean(theory.CUBIC_C * (t_s - k_s) ** 3 + w_max_pkts))
    loss_ratio = rtt_s / (mean_pkts * k_s)
    assert theory.cubic_pkts(loss_ratio, rtt_s) == pytest.approx(mean_pkts, rel=1e-4)
