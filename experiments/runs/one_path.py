"""The network of `ccp simulate` and `ccp play`: flows that share one path, each between hosts of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from experiments.netlab.spec import Bernoulli, Buffer, Direction
from experiments.runs.shapes import Dumbbell, PointToPoint

if TYPE_CHECKING:
    from experiments.netlab.spec import Loss

KERNEL: Final = "kernel/"
"""Prefix of the kernel's algorithms in flows."""


class Changing(Protocol):
    """A running network: simulated, or emulated."""

    def change(self, link: str, **fields: Any) -> None:
        """Change some properties of a link."""


def direction(rate_bytes_per_s: float, rtt_us: float, buffer_bdp: float, loss_ratio: float) -> Direction:
    """Return the path from the senders to the receivers."""
    return Direction(
        rate_bytes_per_s=rate_bytes_per_s,
        delay_us=round(rtt_us / 2),
        buffer=Buffer(bdp=buffer_bdp),
        loss=_loss(loss_ratio),
    )


def network(flows: int, path: Direction) -> PointToPoint | Dumbbell:
    """Return the network of a number of flows; the path back has the same rate, delay and buffer."""
    return PointToPoint(path) if flows == 1 else Dumbbell(flows, path)


def ends(flows: int, number: int) -> tuple[str, str]:
    """Return sender and receiver of a flow by its number, from 1."""
    return ("sender", "receiver") if flows == 1 else (f"s{number}", f"r{number}")


def change(
    net: Changing, flows: int, rate_bytes_per_s: float, rtt_us: float, buffer_bdp: float, loss_ratio: float
) -> None:
    """Change the path of a running network with this number of flows."""
    link = "link" if flows == 1 else "bottleneck"
    net.change(link, rate_bytes_per_s=rate_bytes_per_s, delay_us=round(rtt_us / 2))
    net.change(link, buffer=Buffer(bdp=buffer_bdp))  # after the delays of both directions: it depends on them
    net.change(f"{link}>", loss=_loss(loss_ratio))


def _loss(ratio: float) -> Loss | None:
    return Bernoulli(ratio=ratio) if ratio else None
