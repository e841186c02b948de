"""Random traces of cellular links, determined by a seed.

The model has three parts, each with its source:

- Send opportunities are a Poisson process whose rate varies at random (Winstein, Sivaraman and Balakrishnan,
  Sprout, NSDI 2013, section 3.1).
- The logarithm of that rate is Gaussian, and its autocorrelation falls exponentially with time, like the
  shadow
  fading of a moving receiver (Gudmundson, Electronics Letters 27(23), 1991). Sprout's Brownian motion has no
  long-term mean, which a trace for experiments needs.
- Outages, in which nothing is sent, start at random, and their length is memoryless, as in Sprout.

The trace has exactly the requested mean rate: the number of opportunities is fixed, and given that number,
the times of a Poisson process are independent draws from the rate. The trace matches the other parameters
only on average over many seeds.

The model lacks handovers between cells of different rates, and the scheduler's rounds of some ms. Recordings
also have more slow periods than a log-normal rate.

The defaults resemble two recordings of an LTE network (Verizon's, 140 s each, from the data of the CCP
project's evaluation); docs/netlab.md compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, inf, log, sqrt
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from experiments.netlab.errors import bad_value
from experiments.netlab.spec import Plain, PositiveFloat

OPPORTUNITY_BYTES: Final = 1500
"""Bytes that one opportunity carries (Netravali et al., Mahimahi, USENIX ATC 2015, section 4)."""
OUTAGE_MS: Final = 500
"""Minimum gap between opportunities that counts as an outage in `describe`."""

STEP_MS: Final = 10
"""Time step within which the rate is constant; below every round-trip time of such a link."""
_BIN_MS: Final = 500
_FIT_LAG_BINS: Final = 2


class Cellular(Plain, frozen=True):
    """Parameters of a cellular link.

    Attributes:
        mean_bytes_per_s: Mean rate, outages included [bytes/s].
        variation_ratio: Standard deviation of the rate outside outages, divided by its mean.
        coherence_s: Time after which the autocorrelation of the rate's logarithm is 1/e [s].
        outage_every_s: Mean time from the end of an outage to the next one [s]; None for no outages.
        outage_s: Mean length of an outage [s].
    """

    mean_bytes_per_s: PositiveFloat = 625e3
    variation_ratio: PositiveFloat = 0.65
    coherence_s: PositiveFloat = 4.0
    outage_every_s: PositiveFloat | None = 120.0
    outage_s: PositiveFloat = 1.0


def draw(link: Cellular, duration_s: float, seed: int) -> NDArray[np.int64]:
    """Generate the opportunities of a trace at random.

    Args:
        link: Parameters of the link.
        duration_s: Length of the trace, after which it repeats [s].
        seed: The same seed gives the same trace.

    Returns:
        Times of the opportunities [ms], shape (n,), ascending; the last one is `duration_s`.

    Raises:
        LabError: `lab.bad_value`, if a parameter is invalid, or not one packet fits.
    """
    given = msgspec.structs.asdict(link)
    try:
        msgspec.convert(given, Cellular)
        if infinite := [name for name, value in given.items() if value == inf]:
            raise msgspec.ValidationError(f"{infinite[0]} is infinite")
    except msgspec.ValidationError as error:
        raise bad_value(
            f"invalid cellular link: {error}", "cellular", "give positive, finite numbers"
        ) from error
    duration_ms = round(duration_s * 1e3)
    n_opportunities = round(link.mean_bytes_per_s * duration_s / OPPORTUNITY_BYTES)
    if n_opportunities < 1 or duration_ms < 1:
        raise bad_value(
            f"a trace of {duration_s:g} s at {link.mean_bytes_per_s:g} bytes/s has no opportunity to send "
            f"{OPPORTUNITY_BYTES} bytes",
            "cellular",
            "make the trace longer or faster",
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    n_steps = -(-duration_ms // STEP_MS)
    weights = fading(link, n_steps, rng) * is_up(link, n_steps, rng)
    sent = np.concatenate(([0.0], np.cumsum(weights)))
    # The last opportunity is fixed: after it the trace repeats.
    at = np.sort(rng.random(n_opportunities - 1)) * sent[-1]
    return opportunities(at, sent, duration_ms)


def opportunities(at: NDArray[np.float64], sent: NDArray[np.float64], duration_ms: int) -> NDArray[np.int64]:
    """Return the times at which a sum of rates reaches values, and the end of the trace [ms].

    Args:
        at: The values, ascending, for all opportunities but the last; shape (n - 1,).
        sent: The sum at the start, and after each step; shape (steps + 1,).
        duration_ms: The end of the trace, at which the last opportunity is [ms].
    """
    edges_ms = np.minimum(np.arange(len(sent)) * STEP_MS, duration_ms)
    times_ms = np.ceil(np.interp(at, sent, edges_ms)).astype(np.int64)
    return np.append(times_ms, duration_ms)


def fading(link: Cellular, n_steps: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the rate in each step, relative to its median; its logarithm is Ornstein-Uhlenbeck."""
    kept = exp(-STEP_MS / (1e3 * link.coherence_s))
    noise = rng.standard_normal(n_steps)
    noise[1:] *= sqrt(1 - kept**2)
    walk = np.fromiter(accumulate(noise, lambda last, new: kept * last + new), float, n_steps)
    # The variance of a log-normal variable is (exp(s^2) - 1) times its squared mean.
    return np.exp(sqrt(log(1 + link.variation_ratio**2)) * walk)


def is_up(link: Cellular, n_steps: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return the steps without an outage; the first step has none."""
    up = np.ones(n_steps, bool)
    if link.outage_every_s is None:
        return up
    steps_per_s = 1e3 / STEP_MS
    at = 1.0
    while (at := at + rng.exponential(link.outage_every_s) * steps_per_s) < n_steps:
        end = at + rng.exponential(link.outage_s) * steps_per_s
        up[round(at) : round(end)] = False
        at = end
    return up


def write_trace(file: Path, times_ms: Sequence[int] | NDArray[np.int64]) -> None:
    """Write a trace of opportunities, ascending [ms], one per line.

    Raises:
        LabError: `lab.bad_value`, if the file cannot be written.
    """
    try:
        file.write_text("".join(f"{time_ms}\n" for time_ms in times_ms))
    except OSError as error:
        raise bad_value(
            f"cannot write the trace {file}: {error.strerror}", "cellular", "choose another file"
        ) from error


@dataclass(frozen=True)
class TraceFigures:
    """Properties of a trace, generated or recorded.

    Attributes:
        duration_s: Length, after which the trace repeats [s].
        mean_bytes_per_s: Mean rate [bytes/s].
        variation_ratio: Standard deviation of the rate over 0.5 s, divided by its mean, without outages and
            without the Poisson noise of single opportunities; NaN for less than a second of data.
        coherence_s: Time after which the autocorrelation of the rate's logarithm is 1/e [s], estimated at
            lags of 1 and 2 s; NaN where it does not fall.
        outages: Number of gaps of at least 0.5 s.
        outage_ratio: Share of the time in outages.
        longest_gap_ms: Longest gap [ms].
    """

    duration_s: float
    mean_bytes_per_s: float
    variation_ratio: float
    coherence_s: float
    outages: int
    outage_ratio: float
    longest_gap_ms: int


def describe(times_ms: Sequence[int] | NDArray[np.int64]) -> TraceFigures:
    """Return the properties of a trace with these opportunities, ascending, the last above 0 [ms]."""
    times = np.asarray(times_ms, np.int64)
    duration_ms = int(times[-1])
    starts = np.concatenate(([0], times[:-1]))
    gaps_ms = times - starts
    long = gaps_ms >= OUTAGE_MS
    n_bins = duration_ms // _BIN_MS
    counts = np.bincount(np.minimum((times - 1).clip(0) // _BIN_MS, n_bins), minlength=n_bins + 1)[:n_bins]
    seen = np.ones(n_bins, bool)
    for start, end in zip(starts[long], times[long], strict=True):
        seen[start // _BIN_MS : end // _BIN_MS + 1] = False
    return TraceFigures(
        duration_s=duration_ms / 1e3,
        mean_bytes_per_s=len(times) * OPPORTUNITY_BYTES * 1e3 / duration_ms,
        variation_ratio=_variation_ratio(counts[seen].astype(float)),
        coherence_s=_coherence_s(np.where(seen & (counts > 0), counts, np.nan)),
        outages=int(long.sum()),
        outage_ratio=float(gaps_ms[long].sum() / duration_ms),
        longest_gap_ms=int(gaps_ms.max()),
    )


def _variation_ratio(counts: NDArray[np.float64]) -> float:
    if len(counts) < 2:
        return float("nan")
    # The variance of a Poisson variable equals its mean; the excess is the variance of the rate.
    return sqrt(max(counts.var() - counts.mean(), 0.0)) / float(counts.mean())


def _coherence_s(counts: NDArray[np.float64]) -> float:
    logs = np.log(counts)
    logs -= np.nanmean(logs) if np.isfinite(logs).any() else 0.0

    def covariance(lag: int) -> float:
        products = logs[:-lag] * logs[lag:]
        return float(np.nanmean(products)) if np.isfinite(products).any() else float("nan")

    # At two nonzero lags, the Poisson noise of single opportunities is uncorrelated.
    near, far = covariance(_FIT_LAG_BINS), covariance(2 * _FIT_LAG_BINS)
    if not 0 < far < near:
        return float("nan")
    return _FIT_LAG_BINS * _BIN_MS / 1e3 / log(near / far)
