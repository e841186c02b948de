"""Building blocks of the scenarios: paths, flows, and line-ups of flows on a path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.controllers import CUBIC
from experiments.events import Event, SetLink
from experiments.netlab.cellular import OPPORTUNITY_BYTES, Cellular, draw, write_trace
from experiments.netlab.mobile import PROFILES, Drawn, buffer_pkts, draw_profile
from experiments.netlab.spec import Buffer, Direction, Misbehaving
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import Iperf3, Rtp, Traffic
from experiments.units import MBIT

Lineup = Callable[[str], Scenario]
"""Returns a scenario in which the given algorithm is evaluated."""

BULK: Final = Iperf3()
"""A transfer until the end of the run."""

VIDEO: Final = Rtp(frames_per_s=25, frame_bytes=10_000)
"""2 Mbit/s of video over RTP."""

X: Final = ""
"""Stands for the algorithm in `Flow.algorithm`."""

DOWN: Final = "bottleneck>"
"""The direction from senders to receivers."""

_MOBILE: Final = {"lte-driving": (13, 2), "5g-mmwave": (100, 1), "leo": (50, 1)}
"""Profile -> mean rate [Mbit/s], and the first seed with two handovers.

The fast links are scaled to these rates, to save processor time.
"""
_MOBILE_S: Final = 40
CELLULAR: Final = "cellular"
"""Trace of a modelled cellular link."""
_CELLULAR_MBIT: Final = 10
_CELLULAR_SEED: Final = 1
_BURSTS: Final = "bursts"
_BURSTS_MBIT: Final = 12
_BURST_MS: Final = 20
_TRACE_S: Final = 60


@dataclass(frozen=True)
class Flow:
    """A flow of a line-up, between hosts of its own.

    Attributes:
        name: Its name; `x` is evaluated, `c` competes, `t` is thin or short, `m` is media.
        algorithm: Its congestion control; `X` for the one that is evaluated.
        traffic: Its traffic.
        start_s: Its start [s].
        access_ms: One-way delay of its sender's link [ms].
    """

    name: str
    algorithm: str = X
    traffic: Traffic = BULK
    start_s: float = 0.0
    access_ms: float = 0.0


def flows(count: int, every_s: float = 0.0, algorithm: str = X) -> tuple[Flow, ...]:
    """Return long flows that start one after the other."""
    return tuple(Flow(f"x{n + 1}", algorithm, start_s=n * every_s) for n in range(count))


def rival(number: int = 1, algorithm: str = CUBIC, start_s: float = 0.0) -> Flow:
    """Return a long competing flow."""
    return Flow(f"c{number}", algorithm, start_s=start_s)


def path(mbit: float, rtt_ms: float, bdp: float | None = 1.0, **fields: Any) -> Direction:
    """Return a path's direction to the receivers; the way back has the same rate, delay and buffer."""
    usual: dict[str, Any] = {} if bdp is None else {"buffer": Buffer(bdp=bdp)}
    return Direction(rate_bytes_per_s=mbit * MBIT, delay_us=round(rtt_ms * 500), **usual | fields)


def lineup(
    way: Direction,
    who: Sequence[Flow],
    duration_s: float,
    *,
    back: Direction | None = None,
    events: Sequence[Event] = (),
    ecn: bool = False,
    misbehaving: Misbehaving | None = None,
) -> Lineup:
    """Return flows over a path as a function of the algorithm that is evaluated.

    The flow at position N of `who` has the receiver `rN`, from 1.
    """
    access = tuple(Direction(delay_us=round(one.access_ms * 1000)) for one in who)
    liars = () if misbehaving is None else (misbehaving,)
    shape = Dumbbell(len(who), way, access=access, backward=back, misbehaving=liars)

    def scenario(algorithm: str) -> Scenario:
        specs = [
            FlowSpec(
                one.name,
                f"s{n}",
                f"r{n}",
                one.algorithm or algorithm,
                traffic=one.traffic,
                start_s=one.start_s,
                ecn=ecn,
            )
            for n, one in enumerate(who, 1)
        ]
        return Scenario(
            name="line-up",
            topology=shape,
            flows=tuple(specs),
            duration_s=duration_s,
            events=tuple(events),
            datapath="sim",
        )

    return scenario


def change(at_s: float, **fields: Any) -> SetLink:
    """Return an event that changes the direction to the receivers."""
    return SetLink(at_s, DOWN, fields)


def both_ways(at_s: float, **fields: Any) -> SetLink:
    """Return an event that changes both directions."""
    return SetLink(at_s, DOWN.rstrip(">"), fields)


def offered_mbit(trace: str, start_s: float, stop_s: float) -> float:
    """Return the mean rate of a trace over a time [Mbit/s].

    Args:
        trace: Its name: `CELLULAR`, or a profile.
        start_s: Start of the time [s].
        stop_s: Its end, before the trace repeats [s].
    """
    times_ms = _times_ms(trace)
    count = np.count_nonzero((times_ms > 1e3 * start_s) & (times_ms <= 1e3 * stop_s))
    return float(count * OPPORTUNITY_BYTES / (stop_s - start_s) / MBIT)


@cache
def _times_ms(trace: str) -> NDArray[np.int64]:
    if trace == CELLULAR:
        return draw(Cellular(mean_bytes_per_s=_CELLULAR_MBIT * MBIT), _TRACE_S, _CELLULAR_SEED)
    if trace == _BURSTS:
        each = round(_BURSTS_MBIT * MBIT * _BURST_MS / 1000 / OPPORTUNITY_BYTES)
        return np.repeat(np.arange(_BURST_MS, 1000 + 1, _BURST_MS), each)
    return _drawn(trace).times_ms


@cache
def _drawn(profile: str) -> Drawn:
    mbit, seed = _MOBILE[profile]
    return draw_profile(PROFILES[profile], _MOBILE_S, seed, mbit * MBIT)


@dataclass(frozen=True)
class Mobile:
    """A link of a profile with handovers.

    Attributes:
        way: The direction to the receivers; the way back is like it.
        events: Changes of the delay.
        mbit: Mean rate [Mbit/s].
        base_ms: Base RTT at its lowest [ms].
    """

    way: Direction
    events: tuple[Event, ...]
    mbit: float
    base_ms: float


@dataclass(frozen=True)
class Traces:
    """Trace files of links, equal on every machine.

    Attributes:
        folder: Where `write` puts them.
    """

    folder: Path

    @property
    def cellular(self) -> str:
        """File of a modelled cellular link, of 10 Mbit/s in the mean."""
        return self._file(CELLULAR)

    @property
    def bursts(self) -> str:
        """File of a link that waits 20 ms, then sends what 12 Mbit/s allowed in them back to back."""
        return self._file(_BURSTS)

    def mobile(self, profile: str) -> Mobile:
        """Return a link of one of the profiles that `write` draws."""
        drawn = _drawn(profile)
        return Mobile(
            Direction(
                trace=self._file(profile),
                delay_us=drawn.delays[0][1],
                buffer=Buffer(packets=buffer_pkts(PROFILES[profile], drawn.times_ms)),
            ),
            tuple(both_ways(at_s, delay_us=delay_us) for at_s, delay_us in drawn.delays[1:]),
            _MOBILE[profile][0],
            min(delay_us for _, delay_us in drawn.delays) / 500,
        )

    def write(self) -> None:
        """Write the files that are missing.

        Raises:
            LabError: `lab.bad_value`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (CELLULAR, _BURSTS, *_MOBILE):
            _write(self._file(name), _times_ms(name))

    def _file(self, name: str) -> str:
        return str((self.folder / f"{name}.trace").absolute())


def _write(name: str, times_ms: NDArray[np.int64]) -> None:
    file = Path(name)
    if not file.exists():
        part = file.with_suffix(".part")
        write_trace(part, times_ms)
        part.replace(file)
