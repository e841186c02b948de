"""Networks drawn at random: what a rule that tells losses apart has to stand.

The same count and seed give the same networks, and more of them begin with those of fewer. Kinds come in
turn; everything else is drawn.

| what | from |
| --- | --- |
| rate | 2 to 200 Mbit/s, log-uniform; traces have a mean of 2 to 50 Mbit/s |
| RTT without queues | 5 to 200 ms, log-uniform |
| buffer | 2.5 to 400 % of the BDP, log-uniform, at least 4 packets; with an AQM, or a trace, at least 100 % |
| random loss | `random`, and half of `aqm` and `cellular`: 0.01 to 3 %, log-uniform |
| bursts | Gilbert: 0.01 to 0.3 % of packets begin one, mean length 1.7 to 5 packets |
| AQM | CoDel or RED; half of them mark |
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal, get_args

import msgspec

from experiments.netlab.at_random import (
    CELL_RATES_MBIT,
    LEAST_BUFFER_PKTS,
    LOSSES,
    RTTS_MS,
    log_uniform,
    random_bursts,
    random_red,
)
from experiments.netlab.cellular import OPPORTUNITY_BYTES, Cellular
from experiments.netlab.spec import Bernoulli, Buffer, CoDel, Direction, GilbertElliott, Red
from experiments.papers.kept_traces import trace_file
from experiments.papers.two_flows import LOSS
from experiments.units import MBIT

Kind = Literal["drop-tail", "random", "bursts", "aqm", "cellular"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""What is particular about a network."""

TRIED_SEED: Final = 1
"""Of the networks that algorithms were made with."""
JUDGED_SEED: Final = 3
"""Of those that judge them, which nobody looked at before. 2 judged a version of `lt_cubic` that took delayed
acknowledgments for a queue, which its worst networks showed."""

RATES_MBIT: Final = (2.0, 200.0)
BUFFERS_BDP: Final = (0.025, 4.0)
ROOMY_BDP: Final = (1.0, 4.0)
TRACE_S: Final = 12.0


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        name: `SEED-NUMBER`.
        kind: What is particular about it.
        bottleneck: From the senders to the receivers.
        ecn: Whether flows ask for ECN.
        seed: Of what is random in it.
        told: The path, for people.
    """

    name: str
    kind: Kind
    bottleneck: Direction
    ecn: bool
    seed: int
    told: str

    @property
    def fields(self) -> dict[str, Any]:
        """What it sets of a scenario with the shape of a dumbbell."""
        back = Direction(delay_us=self.bottleneck.delay_us)
        return {
            "name": f"{self.kind}: {self.told}",
            "seed": self.seed,
            "topology.bottleneck": msgspec.to_builtins(self.bottleneck),
            "topology.backward": msgspec.to_builtins(back),
            "flows.*.ecn": self.ecn,
        }


LOSSLESS: Final[dict[str, Any]] = {LOSS: None}
"""What makes a network one without random loss."""


def networks(count: int, seed: int) -> list[Network]:
    """Draw networks.

    Args:
        count: How many.
        seed: Of the generator.

    Raises:
        LabError: `lab.bad_value`, if a trace cannot be written.
    """
    return [_drawn(number, seed) for number in range(1, count + 1)]


def _drawn(number: int, seed: int) -> Network:
    name = f"{seed}-{number:03}"
    rng = Random(f"flex-cubic {name}")
    kind = KINDS[(number - 1) % len(KINDS)]
    path, told = _cellular(rng, name) if kind == "cellular" else _wired(rng, kind)
    ecn = False
    if kind == "aqm":
        ecn = rng.random() < 0.5
        queue, name_of_queue = _aqm(rng, path, ecn)
        path = msgspec.structs.replace(path, queue=queue)
        told = f"{told}, {name_of_queue} {'marks' if ecn else 'drops'}"
    loss: Bernoulli | GilbertElliott | None = None
    if kind == "bursts":
        loss = random_bursts(rng)
        told = f"{told}, {100 * loss.good_to_bad:.2g} % begin bursts of {1 / loss.bad_to_good:.2g}"
    elif kind == "random" or (kind != "drop-tail" and rng.random() < 0.5):
        loss = Bernoulli(log_uniform(rng, *LOSSES))
        told = f"{told}, {100 * loss.ratio:.2g} % lost"
    return Network(name, kind, msgspec.structs.replace(path, loss=loss), ecn, rng.getrandbits(31), told)


def _wired(rng: Random, kind: Kind) -> tuple[Direction, str]:
    rate_mbit, rtt_ms = log_uniform(rng, *RATES_MBIT), log_uniform(rng, *RTTS_MS)
    bdp = log_uniform(rng, *(ROOMY_BDP if kind == "aqm" else BUFFERS_BDP))
    bdp_bytes = rate_mbit * MBIT * rtt_ms / 1e3
    bdp = float(f"{max(bdp, LEAST_BUFFER_PKTS * OPPORTUNITY_BYTES / bdp_bytes):.3g}")
    path = Direction(rate_bytes_per_s=rate_mbit * MBIT, delay_us=round(rtt_ms * 500), buffer=Buffer(bdp=bdp))
    return path, f"{rate_mbit:.3g} Mbit/s, {rtt_ms:.3g} ms, {bdp:.2g} BDP"


def _aqm(rng: Random, path: Direction, ecn: bool) -> tuple[CoDel | Red, str]:
    assert path.rate_bytes_per_s
    if rng.random() < 0.5:
        return CoDel(ecn=ecn), "CoDel"
    return random_red(rng, path.rate_bytes_per_s * 2 * path.delay_us / 1e6, ecn), "RED"


def _cellular(rng: Random, name: str) -> tuple[Direction, str]:
    rate_mbit, rtt_ms = log_uniform(rng, *CELL_RATES_MBIT), log_uniform(rng, *RTTS_MS)
    link = Cellular(
        mean_bytes_per_s=rate_mbit * MBIT,
        variation_ratio=round(rng.uniform(0.2, 1.0), 2),
        coherence_s=log_uniform(rng, 0.5, 8.0),
        outage_every_s=None,
    )
    file = trace_file(f"flex-cubic-{name}", link, TRACE_S, rng.getrandbits(31))
    bdp = log_uniform(rng, *ROOMY_BDP)
    packets = max(round(bdp * rate_mbit * MBIT * rtt_ms / 1e3 / OPPORTUNITY_BYTES), 2 * LEAST_BUFFER_PKTS)
    path = Direction(trace=str(file), delay_us=round(rtt_ms * 500), buffer=Buffer(packets=packets))
    varies = f"varies by {100 * link.variation_ratio:.0f} % in {link.coherence_s:.2g} s"
    return path, f"{rate_mbit:.3g} Mbit/s, {rtt_ms:.3g} ms, {bdp:.2g} BDP, {varies}"
