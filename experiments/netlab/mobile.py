"""Random traces of mobile and satellite links with handovers, from named profiles, determined by a seed.

A link stays in one cell (or with one satellite) for a time, and then changes to the next one:

- Each cell has its own mean rate, log-normally distributed, and its own base RTT: the smallest one that was
  measured plus an exponentially distributed part.
- Within a cell the rate varies as in `cellular`: log-normal, with an exponential autocorrelation.
- Nothing is sent during the interruption by a handover, and during outages. Their lengths are exponentially
  distributed; outages start at random.
- Opportunities are a Poisson process (Winstein et al., Sprout, NSDI 2013, section 3.1); where the rate does
  not vary at all, they are evenly spaced.

The rate is a trace, the base RTT a list of events that change the delay of the link.

Figures marked with a data set are its own statistics, computed for this module from the public files:

- 5GOPHERS: Narayanan et al., A First Look at Commercial 5G Performance on Smartphones, WWW 2020; its data set
  5Gophers 1.0 (CC BY 4.0). Throughput of TCP over 1 s, and RTT of ping.
- RACA: Raca et al., Beyond Throughput, The Next Generation: a 5G Dataset with Channel and Context Metrics,
  MMSys 2020; downloads while driving. Throughput over about 1 s; seconds without any are left out.
- HU: Hu et al., LEO Satellite vs. Cellular Networks, CoNEXT Companion 2023; throughput of UDP over 1 s, while
  driving, with Starlink (plan Mobility) and three cellular operators.
- ZHAO: Zhao and Pan, Low-Latency Live Video Streaming over a Low-Earth-Orbit Satellite Network with DASH,
  MMSys 2024; its data: 36,000 pings from a Starlink terminal to its gateway in Seattle, without laser links.

Throughput over 1 s understates how much the rate varies within a second, and that of TCP includes what TCP
does. Figures marked as assumed, and buffers without a source, are not measured.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import yaml
from numpy.typing import NDArray

from ccplane.base.names import close_names
from experiments.netlab.cellular import (
    OPPORTUNITY_BYTES,
    STEP_MS,
    Cellular,
    fading,
    is_up,
    opportunities,
)
from experiments.netlab.errors import bad_value
from experiments.netlab.spec import Plain
from experiments.units import MBIT

MAX_OPPORTUNITIES: Final = 20_000_000
"""Maximum length of a trace: 240 GB, 10 min at 400 Mbit/s."""

_STEPS_PER_S: Final = 1000 / STEP_MS


class Access(Plain, frozen=True):
    """Cells of one kind.

    Attributes:
        mean_mbit: Mean rate, without interruptions and outages [Mbit/s].
        variation_ratio: Standard deviation of the rate within a cell, divided by its mean; 0 for none.
        coherence_s: Time after which the autocorrelation of that rate's logarithm is 1/e [s].
        cell_ratio: Standard deviation of the cells' mean rates, divided by their mean.
        stay_s: Mean time in a cell, exponentially distributed [s]; None for ever.
        interruption_s: Mean time without data at the start of a cell [s].
        rtt_ms: Base RTT, without queueing [ms].
        rtt_spread_ms: Mean of the part that is added to it in each cell [ms].
    """

    mean_mbit: float
    variation_ratio: float = 0.0
    coherence_s: float = 1.0
    cell_ratio: float = 0.0
    stay_s: float | None = None
    interruption_s: float = 0.0
    rtt_ms: float = 50.0
    rtt_spread_ms: float = 0.0


class Profile(Plain, frozen=True):
    """A link.

    Attributes:
        title: What it models, as a noun phrase.
        access: Kinds of cells, visited in turn.
        regular: Whether all stays have the same length, instead of an exponential distribution.
        persistence: Correlation of the mean rates of successive cells, as logarithms.
        outage_every_s: Mean time from the end of an outage to the next one [s]; None for no outages.
        outage_s: Mean length of an outage [s].
        buffer_s: Buffer in front of the link, as time at the mean rate [s].
    """

    title: str
    access: tuple[Access, ...]
    regular: bool = False
    persistence: float = 0.0
    outage_every_s: float | None = None
    outage_s: float = 1.0
    buffer_s: float = 0.3


_STARLINK: Final = Access(
    # HU, the 1,493 intervals in which every second had data: medians of 160 Mbit/s in the mean, standard
    # deviation 0.43 of it, 0.20 within an interval, autocorrelation 0.35 after 1 s.
    mean_mbit=160,
    cell_ratio=0.43,
    variation_ratio=0.20,
    coherence_s=1.0,
    # Satellites are reallocated every 15 s, at the same time everywhere (Mohan et al., A Multifaceted Look at
    # Starlink Performance, WWW 2024).
    stay_s=15,
    # HU, 1,365 reallocations: the two seconds around one carry 0.23 s less than those before and after.
    interruption_s=0.23,
    # ZHAO, the 5 % quantiles of 634 intervals: 22, 24, 28, 37 and 62 ms at 5, 25, 50, 75 and 95 %; the next
    # interval's is independent (correlation 0.07).
    rtt_ms=21,
    rtt_spread_ms=11,
)
# HU: outages of up to a minute (seconds with at most 0.1 Mbit/s) of the operator between the other two, AT&T.
_DRIVING_EVERY_S: Final = 116
_DRIVING_OUTAGE_S: Final = 1.6

PROFILES: Final[dict[str, Profile]] = {
    "lte": Profile(
        "LTE without motion",
        (
            # 5GOPHERS, 18 runs with 8 or 16 connections at three places (4G): in the mean 171 Mbit/s,
            # standard deviation 0.2 of a run's mean, autocorrelation 0.30 after 1 s; RTT at least 57 ms.
            Access(mean_mbit=171, variation_ratio=0.2, coherence_s=0.8, rtt_ms=57),
        ),
        # 5GOPHERS: with a load, 5 % of the pings took 0.5 s or more.
        buffer_s=0.5,
    ),
    "lte-driving": Profile(
        "LTE in a car",
        (
            Access(
                # RACA, 196 stays in LTE cells: 13 Mbit/s in the mean; the logarithms of the cells' means have
                # a standard deviation of 0.76; within a cell, the median standard deviation is 0.56 of the
                # mean, the autocorrelation of the logarithm 0.55 after 1 s and 0.28 after 2 s. The mean stay
                # is 40 s.
                mean_mbit=13,
                cell_ratio=0.89,
                variation_ratio=0.56,
                coherence_s=1.6,
                stay_s=40,
                interruption_s=0.05,  # assumed
                rtt_ms=68,  # RACA: 5 % of the pings over LTE took less
            ),
        ),
        outage_every_s=_DRIVING_EVERY_S,
        outage_s=_DRIVING_OUTAGE_S,
        buffer_s=0.5,
    ),
    "5g-midband": Profile(
        "5G at 2.5 GHz in a car",
        (
            Access(
                # 5GOPHERS, Sprint, two drives of 120 s: means of 265 and 316 Mbit/s, standard deviations of
                # 0.39 and 0.49 of them, autocorrelation 0.73 and 0.89 after 1 s. These include the cells'
                # differences.
                mean_mbit=290,
                variation_ratio=0.44,
                coherence_s=5.0,
                # RACA, 5G at 3.5 GHz: one change of the 5G cell in 46 s.
                stay_s=46,
                interruption_s=0.1,  # assumed
                rtt_ms=30,  # 5GOPHERS, Sprint, to US-East: 5 % of the pings took less
            ),
        ),
        outage_every_s=_DRIVING_EVERY_S,
        outage_s=_DRIVING_OUTAGE_S,
    ),
    "5g-mmwave": Profile(
        "5G at millimetre waves on foot, blocked now and then, with LTE in between (NSA)",
        (
            # 5GOPHERS, a walk of 603 s: 11 stays in 5G of 26 s in the mean; after their first 3 s, 580
            # Mbit/s, standard deviation 0.38 of it, autocorrelation of the logarithm 0.76 after 1 s and 0.52
            # after 4 s.
            Access(
                mean_mbit=580,
                variation_ratio=0.38,
                coherence_s=5.0,
                stay_s=26,
                rtt_ms=54,  # the smallest RTTs (5 %) while standing, to a distant server
            ),
            # The 9 short stays in LTE that lie between: 3.1 s in the mean. Two seconds later, when the
            # throughput shows them: 97 Mbit/s, standard deviation 0.78 of it, without the seconds in which
            # nothing arrives, 5 in the 11 changes from 5G.
            Access(
                mean_mbit=97,
                variation_ratio=0.78,
                coherence_s=1.0,  # assumed
                stay_s=3.1,
                interruption_s=0.45,
                rtt_ms=57,
            ),
        ),
    ),
    "leo": Profile(
        "Starlink with a free view of the sky",
        (_STARLINK,),
        regular=True,
        persistence=0.48,  # HU: correlation of the medians of successive intervals
        buffer_s=0.2,
    ),
    "leo-driving": Profile(
        "Starlink in a car, with obstructions",
        (_STARLINK,),
        regular=True,
        persistence=0.48,
        # HU: outages of up to a minute. Longer ones make up 4 % of all outages there.
        outage_every_s=116,
        outage_s=5.5,
        buffer_s=0.2,
    ),
    "geo": Profile(
        "a geostationary satellite",
        # The median downloads of HughesNet and Viasat in 2021 were 19 Mbit/s (Ookla, Speedtest, third quarter
        # of 2021); RTTs are 550 ms or more (Perdices et al., When Satellite is All You Have, IMC 2022). Rain
        # fades last for minutes, longer than these traces; they are left out.
        (Access(mean_mbit=19, rtt_ms=600),),
        buffer_s=0.6,
    ),
}
"""The profiles by name."""


@dataclass(frozen=True)
class Drawn:
    """A trace that was drawn from a profile.

    Attributes:
        times_ms: Times of the opportunities [ms], shape (n,), ascending; the last one is the trace's end.
        delays: Since when the link has which one-way delay [s, us]; the first one from the start.
    """

    times_ms: NDArray[np.int64]
    delays: tuple[tuple[float, int], ...]


def draw_profile(
    profile: Profile, duration_s: float, seed: int, mean_bytes_per_s: float | None = None
) -> Drawn:
    """Draw a trace and its delays at random.

    Args:
        profile: Parameters of the link.
        duration_s: Length of the trace, after which it repeats [s].
        seed: The same seed gives the same trace.
        mean_bytes_per_s: Mean rate to scale the trace to [bytes/s]; None for the one that was drawn.

    Raises:
        LabError: `lab.bad_value`, if the trace is too short or too long.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    duration_ms = round(duration_s * 1e3)
    n_steps = -(-duration_ms // STEP_MS)
    rates, delays = _cells(profile, _stays(profile, duration_s, rng), n_steps, rng)
    if profile.outage_every_s is not None:
        rates *= is_up(
            Cellular(outage_every_s=profile.outage_every_s, outage_s=profile.outage_s), n_steps, rng
        )
    sent = np.concatenate(([0.0], np.cumsum(rates)))
    total_bytes = sent[-1] / _STEPS_PER_S if mean_bytes_per_s is None else mean_bytes_per_s * duration_s
    n_opportunities = round(total_bytes / OPPORTUNITY_BYTES)
    if not 1 <= n_opportunities <= MAX_OPPORTUNITIES or sent[-1] == 0:
        raise bad_value(
            f"a trace of {duration_s:g} s has {n_opportunities} opportunities to send {OPPORTUNITY_BYTES} "
            f"bytes; 1 to {MAX_OPPORTUNITIES} are possible",
            "profile",
            "change the length or the mean rate",
        )
    if all(one.variation_ratio == 0 for one in profile.access):
        at = np.arange(1, n_opportunities) * (sent[-1] / n_opportunities)
    else:
        at = np.sort(rng.random(n_opportunities - 1)) * sent[-1]
    return Drawn(opportunities(at, sent, duration_ms), delays)


def profile_of(name: str) -> Profile:
    """Return a profile by its name.

    Raises:
        LabError: `lab.bad_value`.
    """
    if name not in PROFILES:
        raise bad_value(f"unknown profile `{name}`", "--profile", close_names(name, PROFILES, "profile"))
    return PROFILES[name]


def buffer_pkts(profile: Profile, times_ms: NDArray[np.int64]) -> int:
    """Return the buffer in front of a trace that was drawn from a profile [packets]."""
    return max(1, round(profile.buffer_s * 1e3 * len(times_ms) / int(times_ms[-1])))


def delay_events(delays: Sequence[tuple[float, int]], link: str) -> list[tuple[float, str, dict[str, int]]]:
    """Return the changes of a link's delay: time [s], link, and its fields that change."""
    return [(at_s, link, {"delay_us": delay_us}) for at_s, delay_us in delays[1:]]


def write_scenario(file: Path, name: str, trace: Path, drawn: Drawn) -> None:
    """Write a scenario with one flow over a drawn link; outages concern both directions.

    Raises:
        LabError: `lab.bad_value`, if the file cannot be written.
    """
    profile = profile_of(name)
    forward = {
        "trace": os.path.relpath(trace.absolute(), file.absolute().parent),
        "delay_us": drawn.delays[0][1],
        "buffer": {"packets": buffer_pkts(profile, drawn.times_ms)},
    }
    plain = {
        "format": 1,
        "name": profile.title,
        "topology": {"kind": "point_to_point", "forward": forward},
        "flows": [{"name": "x1", "sender": "sender", "receiver": "receiver", "algorithm": "cubic"}],
        "duration_s": float(drawn.times_ms[-1] / 1e3),
        "datapath": "sim",
        "events": [
            {"kind": "set_link", "at_s": at_s, "link": link, "fields": fields}
            for at_s, link, fields in delay_events(drawn.delays, "link")
        ],
    }
    try:
        file.write_text(yaml.safe_dump(plain, sort_keys=False))
    except OSError as error:
        raise bad_value(
            f"cannot write the scenario {file}: {error.strerror}", "--scenario", "choose another file"
        ) from error


def _stays(profile: Profile, duration_s: float, rng: np.random.Generator) -> list[float]:
    """Return the times at which stays in cells start, until the end [s]."""
    starts, at = [0.0], 0.0
    while True:
        mean_s = profile.access[(len(starts) - 1) % len(profile.access)].stay_s
        if mean_s is None:
            return starts
        if profile.regular:
            # The trace starts at a random time of the first interval.
            at += mean_s * (rng.random() if len(starts) == 1 else 1.0)
        else:
            at += rng.exponential(mean_s)
        if at >= duration_s:
            return starts
        starts.append(at)


def _cells(
    profile: Profile, starts: list[float], n_steps: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], tuple[tuple[float, int], ...]]:
    """Return the rate in each step [bytes/s], and the delays from the start of each stay."""
    varying = [_varying(one, n_steps, rng) for one in profile.access]
    rates = np.zeros(n_steps)
    delays: list[tuple[float, int]] = []
    level = rng.standard_normal()
    for number, start_s in enumerate(starts):
        which = number % len(profile.access)
        cell = profile.access[which]
        if number:
            level = (
                profile.persistence * level + math.sqrt(1 - profile.persistence**2) * rng.standard_normal()
            )
        spread = math.sqrt(math.log(1 + cell.cell_ratio**2))
        mean_bytes_per_s = cell.mean_mbit * MBIT * math.exp(spread * level - spread**2 / 2)
        begin = round(start_s * _STEPS_PER_S)
        rates[begin:] = mean_bytes_per_s * varying[which][begin:]
        if number:
            rates[begin : begin + round(rng.exponential(cell.interruption_s) * _STEPS_PER_S)] = 0.0
        rtt_ms = cell.rtt_ms + rng.exponential(cell.rtt_spread_ms)
        delays.append((round(start_s, 3), round(rtt_ms * 500)))
    return rates, tuple(delays)


def _varying(cell: Access, n_steps: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the rate within a cell in each step, relative to its mean."""
    if cell.variation_ratio == 0:
        return np.ones(n_steps)
    link = Cellular(variation_ratio=cell.variation_ratio, coherence_s=cell.coherence_s)
    # The mean of a log-normal variable is exp(s^2 / 2) times its median, and 1 + ratio^2 is exp(s^2).
    return fading(link, n_steps, rng) / math.sqrt(1 + cell.variation_ratio**2)
