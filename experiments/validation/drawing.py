"""Scenarios drawn at random from the space that the papers use.

The same seed and recordings give the same scenarios, and a larger number of scenarios begins with the
scenarios of a smaller one. The kinds of path alternate; everything else is drawn.

| what | distribution |
| --- | --- |
| rate | 1 Mbit/s to 1 Gbit/s, log-uniform; traces have a mean of 2 to 50 Mbit/s |
| RTT without queues | 5 to 200 ms, log-uniform |
| buffer | 0.1 to 4 times the BDP, log-uniform; with an AQM at least 1; of cellular links 1 to 10 |
| flows | 1, or 2 to 4 with one or several algorithms |
| algorithms | the kernel's with probability 2/3, else ccplane's; with step marking DCTCP |

Seeds from `WIDER_FROM` on differ (`WIDER`): every third path has an AQM, which marks more often; half of the
wired rates are above 100 Mbit/s; and two of three scenarios have an algorithm of a paper (`LEADS`) as first
flow, with what it needs: R-Hybrid ECN and receiver agents, INT-CUBIC in-band telemetry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Literal, get_args

import msgspec
import numpy as np

from experiments.netlab.at_random import (
    CELL_RATES_MBIT,
    LOSSES,
    MIN_BUFFER_PKTS,
    RTTS_MS,
    log_uniform,
    random_bursts,
    random_red,
)
from experiments.netlab.cellular import OPPORTUNITY_BYTES, Cellular, draw, write_trace
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    DropTail,
    GilbertElliott,
    Int,
    IntNode,
    Queue,
    Radio,
    TokenBucket,
)
from experiments.netlab.traces import read_trace
from experiments.runs.shapes import Dumbbell
from experiments.scenario import FlowSpec, ReceiverAgent, Scenario
from experiments.units import MBIT

Kind = Literal["drop-tail", "aqm", "loss", "cellular", "limiter"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""Kinds of path."""

KERNELS: Final = {"kernel/cubic": 3, "kernel/bbr": 2, "kernel/reno": 1}
"""Congestion controls of the kernel -> weight."""
OWN: Final = ("cubic", "reno", "bbr3", "flex_cubic")
STEP_MARKED: Final = "dctcp"
"""ccplane's DCTCP, because the simulator does not have the kernel's."""

R_HYBRID: Final = "r_hybrid"
INT_CUBIC: Final = "int_cubic"
LEADS: Final = (
    *(None, "hyvar", INT_CUBIC, R_HYBRID, "rtcp/cubic", None),
    *(None, None, "copa", "lt_cubic", "rtcp/bbr"),
)
"""Algorithms of first flows, in turn; None: no such algorithm."""

DURATION_S: Final = 12.0
RATES_MBIT: Final = (1.0, 1000.0)
FAST_MBIT: Final = 100.0
"""Bound between slow and fast rates; with in-band telemetry rates are slow, because telemetry in every packet
takes processor time that a host would lack."""
BUFFERS_BDP: Final = (0.1, 4.0)
CELL_BUFFERS_BDP: Final = (1.0, 10.0)

_MIN_BUCKET_BYTES: Final = 15_000
_SAMPLE_INTERVAL_US: Final = 20_000
"""Gives hundreds of RTT samples in a run, for percentiles."""
_AQMS: Final = ("codel", "red")
_RADIO: Final = Radio(rssi_dbm=-55.0, snr_db=35.0, mcs=7)
_APART_S: Final = 1.0
"""Time between the starts of flows [s]."""


@dataclass(frozen=True)
class Space:
    """What scenarios are drawn from.

    Attributes:
        kinds: Kinds of path, in turn.
        leads: Algorithms of first flows, in turn.
        marks: Probability that an AQM marks instead of dropping.
        fast: Probability of a rate above `FAST_MBIT`; None: rates are log-uniform.
    """

    kinds: Sequence[Kind]
    leads: Sequence[str | None]
    marks: float
    fast: float | None

    def rate_mbit(self, rng: Random, lead: str | None) -> float:
        """Draw the rate of a wired path [Mbit/s]."""
        low, high = RATES_MBIT
        if self.fast is None:
            return log_uniform(rng, low, high)
        is_fast = rng.random() < self.fast and lead != INT_CUBIC
        return log_uniform(rng, FAST_MBIT, high) if is_fast else log_uniform(rng, low, FAST_MBIT)


NARROW: Final = Space(KINDS, (None,), 0.5, None)
WIDER: Final = Space(("aqm", "drop-tail", "loss", "aqm", "limiter", "cellular"), LEADS, 2 / 3, 0.5)
"""Numbers of kinds and leads have no common divisor, so that all pairs occur."""
WIDER_FROM: Final = 4
"""First seed of `WIDER`."""


@dataclass(frozen=True)
class Drawn:
    """A randomly drawn scenario.

    Attributes:
        scenario: The scenario of its first round.
        kind: Kind of its path.
        rate_mbit: Rate of the limiter if there is one, else of the bottleneck or its trace [Mbit/s].
        description: The path as text.
    """

    scenario: Scenario
    kind: Kind
    rate_mbit: float
    description: str

    @property
    def name(self) -> str:
        """Name of the scenario: `sSEED-NUMBER`."""
        return self.scenario.name

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Algorithms, one for each flow."""
        return tuple(flow.algorithm for flow in self.scenario.flows)


@dataclass(frozen=True)
class _Path:
    """A bottleneck, its description, and requirements of its flows."""

    bottleneck: Direction
    rate_mbit: float
    description: str
    ecn: bool = False
    step_marking: bool = False


def draw_scenarios(count: int, seed: int, folder: Path, recordings: Sequence[Path] = ()) -> list[Drawn]:
    """Draw scenarios.

    Args:
        count: Number of scenarios.
        seed: Seed of the generator.
        folder: Folder for traces of cellular links.
        recordings: Mahimahi traces; half of the cellular links are then parts of them.

    Raises:
        LabError: `lab.bad_value`, if a recording is not a valid trace or a trace cannot be written.
    """
    recorded = {file.name: read_trace(file, "--trace") for file in recordings}
    return [_drawn(number, seed, folder, recorded) for number in range(1, count + 1)]


def _drawn(number: int, seed: int, folder: Path, recorded: dict[str, list[int]]) -> Drawn:
    name = f"s{seed}-{number:03}"
    rng = Random(name)
    space = WIDER if seed >= WIDER_FROM else NARROW
    kind = space.kinds[(number - 1) % len(space.kinds)]
    lead = space.leads[(number - 1) % len(space.leads)]
    if kind == "cellular":
        path = _cellular(rng, folder / f"{name}.trace", recorded)
    else:
        path = _wired(rng, kind, space, lead)
    algorithms = _algorithms(rng, path, lead)
    scenario = _dumbbell(name, path, algorithms).replace(seed=rng.getrandbits(31))
    if lead == INT_CUBIC:
        scenario = _with_telemetry(scenario, kind, echo=rng.random() < 0.5)
    return Drawn(scenario, kind, path.rate_mbit, path.description)


def _dumbbell(name: str, path: _Path, algorithms: Sequence[str]) -> Scenario:
    """Return flows from separate hosts that start one after the other, an algorithm each."""
    has_agents = R_HYBRID in algorithms
    flows = tuple(
        FlowSpec(
            f"f{number}",
            f"s{number}",
            f"r{number}",
            algorithm,
            start_s=_APART_S * (number - 1),
            ecn=path.ecn or has_agents,
        )
        for number, algorithm in enumerate(algorithms, 1)
    )
    backward = Direction(delay_us=path.bottleneck.delay_us) if path.bottleneck.trace else None
    return Scenario(
        name=name,
        topology=Dumbbell(len(algorithms), path.bottleneck, backward=backward),
        flows=flows,
        duration_s=DURATION_S,
        sample_interval_us=_SAMPLE_INTERVAL_US,
        receivers=tuple(ReceiverAgent(one.receiver) for one in flows if one.algorithm == R_HYBRID),
    )


def _with_telemetry(scenario: Scenario, kind: Kind, *, echo: bool) -> Scenario:
    """Return a scenario whose bottleneck writes telemetry into every packet; if lossy, it is a radio link."""
    flows = scenario.flows
    nodes = (
        *(IntNode(one.sender, ("source",)) for one in flows),
        IntNode("left", ("transit",), radio=_RADIO if kind == "loss" else None),
        *(IntNode(one.receiver, ("sink",)) for one in flows),
    )
    return scenario.replace(
        topology=msgspec.structs.replace(scenario.topology, telemetry=Int(nodes, echo=echo)),
        flows=tuple(msgspec.structs.replace(one, family="ipv6") for one in flows),
    )


def _algorithms(rng: Random, path: _Path, lead: str | None) -> list[str]:
    flows = rng.choice((1, 1, 1, 2, 3, 4))
    if path.step_marking:
        return [lead or STEP_MARKED, *[STEP_MARKED] * (flows - 1)]
    if rng.random() < 0.5:
        return [lead or _algorithm(rng)] * flows
    first = [lead] if lead else []
    return [*first, *(_algorithm(rng) for _ in range(flows - len(first)))]


def _algorithm(rng: Random) -> str:
    if rng.random() < 2 / 3:
        (name,) = rng.choices(list(KERNELS), list(KERNELS.values()))
        return name
    return rng.choice(OWN)


# --- wired paths -------------------------------------------------------------------------------------------


def _wired(rng: Random, kind: Kind, space: Space, lead: str | None) -> _Path:
    rate_mbit, rtt_ms = space.rate_mbit(rng, lead), log_uniform(rng, *RTTS_MS)
    bdp = log_uniform(rng, 1.0 if kind == "aqm" else BUFFERS_BDP[0], BUFFERS_BDP[1])
    bdp_bytes = rate_mbit * MBIT * rtt_ms / 1e3
    bdp = max(bdp, MIN_BUFFER_PKTS * OPPORTUNITY_BYTES / bdp_bytes)
    plain = Direction(
        rate_bytes_per_s=rate_mbit * MBIT, delay_us=round(rtt_ms * 500), buffer=Buffer(bdp=round(bdp, 3))
    )
    path = _Path(plain, rate_mbit, f"{rate_mbit:g} Mbit/s, {rtt_ms:g} ms, buffer {bdp:.3g} BDP")
    if kind == "aqm":
        aqms = (*_AQMS, "step") if lead in (None, R_HYBRID) else _AQMS
        return _with_aqm(rng, path, bdp_bytes, aqms, space.marks)
    if kind == "loss":
        return _with_loss(rng, path)
    if kind == "limiter":
        return _with_limiter(rng, path, bdp_bytes)
    return path


def _with_aqm(rng: Random, path: _Path, bdp_bytes: float, aqms: Sequence[str], marks: float) -> _Path:
    which, ecn = rng.choice(aqms), rng.random() < marks
    queue: Queue
    if which == "codel":
        queue, description = CoDel(ecn=ecn), "CoDel"
    elif which == "red":
        red = random_red(rng, bdp_bytes, ecn)
        queue, description = red, f"RED of {red.min_bytes / 1e3:.3g} kB"
    else:
        ecn, threshold_us = True, round(rng.uniform(500, 5000))
        queue, description = DropTail(ce_threshold_us=threshold_us), f"step of {threshold_us / 1e3:.3g} ms"
    return _Path(
        msgspec.structs.replace(path.bottleneck, queue=queue),
        path.rate_mbit,
        f"{path.description}, {description} {'marks' if ecn else 'drops'}",
        ecn,
        which == "step",
    )


def _with_loss(rng: Random, path: _Path) -> _Path:
    loss: Bernoulli | GilbertElliott
    if rng.random() < 0.5:
        ratio = log_uniform(rng, *LOSSES)
        loss, description = Bernoulli(ratio), f"{100 * ratio:.3g} % lost"
    else:
        loss = random_bursts(rng)
        begin, end = 100 * loss.good_to_bad, 100 * loss.bad_to_good
        description = f"loss bursts: {begin:.3g} % of packets begin one, {end:.3g} % end one"
    bottleneck = msgspec.structs.replace(path.bottleneck, loss=loss)
    return _Path(bottleneck, path.rate_mbit, f"{path.description}, {description}")


def _with_limiter(rng: Random, path: _Path, bdp_bytes: float) -> _Path:
    rate_mbit = float(f"{path.rate_mbit * rng.uniform(0.1, 0.6):.3g}")
    bucket_bytes = round(max(bdp_bytes * log_uniform(rng, 0.05, 1.0), _MIN_BUCKET_BYTES))
    shaper = rng.random() < 0.5
    limiter = TokenBucket(rate_mbit * MBIT, bucket_bytes, shaper=shaper)
    description = f"{'shaper' if shaper else 'policer'} of {rate_mbit:g} Mbit/s, {bucket_bytes / 1e3:.3g} kB"
    bottleneck = msgspec.structs.replace(path.bottleneck, token_bucket=limiter)
    return _Path(bottleneck, rate_mbit, f"{path.description}, {description}")


# --- cellular paths ----------------------------------------------------------------------------------------


def _cellular(rng: Random, file: Path, recorded: dict[str, list[int]]) -> _Path:
    duration_ms = round(DURATION_S * 1e3)
    if recorded and rng.random() < 0.5:
        source = rng.choice(sorted(recorded))
        start_ms = rng.randrange(max(recorded[source][-1] - duration_ms, 1))
        times_ms = part_of(recorded[source], start_ms, duration_ms)
        description = f"{source} from {start_ms / 1e3:.1f} s"
    else:
        link = Cellular(
            mean_bytes_per_s=log_uniform(rng, *CELL_RATES_MBIT) * MBIT,
            variation_ratio=round(rng.uniform(0.2, 1.0), 2),
            coherence_s=log_uniform(rng, 0.5, 8.0),
        )
        times_ms = draw(link, DURATION_S, rng.getrandbits(31)).tolist()
        description = f"variation {link.variation_ratio:g} over {link.coherence_s:g} s"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_trace(file, np.asarray(times_ms, np.int64))
    mean_bytes_per_s = len(times_ms) * OPPORTUNITY_BYTES / (times_ms[-1] / 1e3)
    rtt_ms, bdp = log_uniform(rng, *RTTS_MS), log_uniform(rng, *CELL_BUFFERS_BDP)
    packets = max(round(bdp * mean_bytes_per_s * rtt_ms / 1e3 / OPPORTUNITY_BYTES), MIN_BUFFER_PKTS)
    bottleneck = Direction(trace=str(file), delay_us=round(rtt_ms * 500), buffer=Buffer(packets=packets))
    rate_mbit = float(f"{mean_bytes_per_s / MBIT:.3g}")
    return _Path(
        bottleneck, rate_mbit, f"mean {rate_mbit:g} Mbit/s, {rtt_ms:g} ms, {packets} packets, {description}"
    )


def part_of(times_ms: Sequence[int], start_ms: int, duration_ms: int) -> list[int]:
    """Return a part of a trace as a trace."""
    within = [one - start_ms for one in times_ms if start_ms < one < start_ms + duration_ms]
    return [*within, duration_ms]
