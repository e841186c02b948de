"""What netem and tbf have to be told for one direction of a link, and what they cannot do.

A direction becomes a chain of queueing disciplines: `netem` loses, duplicates, corrupts and delays; below it
`tbf` is the transmitter, with the buffer in front. Either is left out where it has nothing to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import plugins, sched_netem
from pyroute2.netlink.rtnl.tcmsg.common import time2tick

from experiments.netlab.errors import LabError
from experiments.netlab.links import ETHERNET_HEADER_BYTES, MAX_TBF_RATE_BYTES_PER_S
from experiments.netlab.spec import Bernoulli, Direction, DropTail, GilbertElliott, Pattern
from experiments.netlab.topology import BURST_S, BURST_VARIABLE

DELAY_LINE_PKTS: Final = 1_000_000
"""netem's `limit` counts what is under way, too; the buffer is tbf's."""

_NETEM_HANDLE: Final = 0x1_0000
_TBF_HANDLE: Final = 0x2_0000
_PFIFO_HANDLE: Final = 0x3_0000
_U32_MAX: Final = 2**32 - 1


@dataclass(frozen=True)
class Qdisc:
    """A queueing discipline as `IPRoute.tc` takes it.

    Attributes:
        kind: Such as `netem`.
        parent: Handle of the class that it hangs on.
        handle: Its own.
        options: What it is told.
    """

    kind: str
    parent: int
    handle: int
    options: dict[str, Any]


def refused(direction: Direction, where: str) -> Iterator[LabError]:
    """Yield what of a direction netem and tbf cannot do.

    Args:
        direction: What a link shall do.
        where: Its field or name.
    """
    if direction.trace is not None:
        yield cannot("follow a trace", f"{where}.trace")
    if direction.queue != DropTail():
        yield cannot("mark packets or manage a queue", f"{where}.queue")
    if isinstance(direction.loss, Pattern):
        yield cannot("lose packets by number", f"{where}.loss")
    bucket = direction.token_bucket
    if bucket is not None and not bucket.shaper:
        yield cannot("drop packets without tokens", f"{where}.token_bucket.shaper")
    if bucket is not None and direction.rate_bytes_per_s is not None:
        yield cannot("have both a rate and a token bucket", f"{where}.token_bucket")
    rate, _ = _bucket(direction, 1500)
    if rate > MAX_TBF_RATE_BYTES_PER_S:
        yield cannot(f"send {rate:g} bytes/s", f"{where}.rate_bytes_per_s")


def cannot(what: str, where: str) -> LabError:
    """Return the error for a wish that only the emulator grants."""
    return LabError(
        "lab.netem_cannot",
        f"netem and tbf cannot {what}",
        where,
        "the kernel has no queueing discipline that does just this",
        'leave it out, or take the emulator: backend="emulator"',
    )


def chain(direction: Direction, mtu_bytes: int, seed: int) -> list[Qdisc]:
    """Return the queueing disciplines that do what a direction of a link says.

    tbf counts Ethernet headers, a direction does not: rate and buffer are larger by a full packet's header,
    so that full packets get the rate, and smaller ones a little less.

    Args:
        direction: With a buffer in packets or bytes; nothing in it may be `refused`.
        mtu_bytes: Largest IP packet [bytes].
        seed: Of netem's random numbers; kernels before 6.6 take none.

    Returns:
        From the root down; empty, if the direction neither limits nor delays nor loses.
    """
    found = []
    parent = TC_H_ROOT
    if options := _netem(direction, seed):
        found.append(Qdisc("netem", parent, _NETEM_HANDLE, options))
        parent = _NETEM_HANDLE + 1
    rate, burst_bytes = _bucket(direction, mtu_bytes)
    if rate:
        buffer = direction.buffer
        in_bytes = buffer.bytes if buffer is not None else None
        limit = _with_headers(in_bytes or mtu_bytes, mtu_bytes)
        options = {"rate": int(rate), "burst": burst_bytes, "limit": limit}
        found.append(Qdisc("tbf", parent, _TBF_HANDLE, options))
        if buffer is not None and buffer.packets is not None:
            found.append(Qdisc("pfifo", _TBF_HANDLE + 1, _PFIFO_HANDLE, {"limit": buffer.packets}))
    return found


def _netem(direction: Direction, seed: int) -> dict[str, Any]:
    loss = direction.loss
    ratios = (direction.duplicate_ratio, direction.corrupt_ratio)
    if not (direction.delay_us or direction.jitter_us or loss or any(ratios)):
        return {}
    options: dict[str, Any] = {
        # netem draws from delay - jitter to delay + jitter
        "delay_us": direction.delay_us + direction.jitter_us // 2,
        "jitter_us": direction.jitter_us // 2,
        "duplicate_ratio": direction.duplicate_ratio,
        "corrupt_ratio": direction.corrupt_ratio,
        "seed": seed,
    }
    if direction.jitter_us:
        options["ordered"] = True
    if isinstance(loss, Bernoulli):
        options["loss_ratio"] = loss.ratio
    if isinstance(loss, GilbertElliott):
        options["gilbert_elliott"] = (loss.good_to_bad, loss.bad_to_good, 1 - loss.loss_bad, loss.loss_good)
    return options


def _bucket(direction: Direction, mtu_bytes: int) -> tuple[float, int]:
    """Return tbf's rate and size of its bucket, with headers; zeros without a limit."""
    bucket = direction.token_bucket
    rate = direction.rate_bytes_per_s
    if rate is None and bucket is None:
        return 0, 0
    if bucket is not None:
        rate, burst_bytes = bucket.rate_bytes_per_s, bucket.bucket_bytes
    else:
        assert rate is not None
        burst_bytes = max(2 * mtu_bytes, int(rate * float(os.environ.get(BURST_VARIABLE, BURST_S))))
    return rate * (1 + ETHERNET_HEADER_BYTES / mtu_bytes), _with_headers(burst_bytes, mtu_bytes)


def _with_headers(size_bytes: int, mtu_bytes: int) -> int:
    return -(-size_bytes * (mtu_bytes + ETHERNET_HEADER_BYTES) // mtu_bytes)


# --- netem in netlink --------------------------------------------------------------------------------------


class _Netem:
    """How pyroute2 writes and reads netem; its own plug-in knows no loss model and no seed.

    All attributes are always there: a change leaves those alone in the kernel that it does not name. The
    layout is that of <linux/pkt_sched.h>.
    """

    parent = TC_H_ROOT

    @staticmethod
    def get_parameters(options: dict[str, Any]) -> dict[str, Any]:
        """Return the contents of TCA_OPTIONS for what `_netem` gives."""
        corrupt = {"prob_corrupt": _u32(options["corrupt_ratio"]), "corr_corrupt": 0}
        # With a rate, however high, netem counts from the last packet on: jitter reorders nothing.
        rate = _U32_MAX if options.get("ordered") else 0
        attrs: list[list[Any]] = [
            ["TCA_NETEM_CORRUPT", corrupt],
            ["TCA_NETEM_RATE", {"rate": rate, "packet_overhead": 0, "cell_size": 0, "cell_overhead": 0}],
            ["TCA_NETEM_PRNG_SEED", options["seed"]],
        ]
        if "gilbert_elliott" in options:
            values = dict(zip(("p", "r", "h", "k1"), map(_u32, options["gilbert_elliott"]), strict=True))
            attrs.append(["TCA_NETEM_LOSS", {"attrs": [["NETEM_LOSS_GE", values]]}])
        return {
            "delay": int(time2tick(options["delay_us"])),
            "jitter": int(time2tick(options["jitter_us"])),
            "limit": DELAY_LINE_PKTS,
            "loss": _u32(options.get("loss_ratio", 0.0)),
            "gap": 0,
            "duplicate": _u32(options["duplicate_ratio"]),
            "attrs": attrs,
        }

    class options(sched_netem.options):  # type: ignore[misc]  # noqa: N801 - pyroute2 looks for this name
        nla_map = (
            ("TCA_NETEM_UNSPEC", "none"),
            ("TCA_NETEM_CORR", "netem_corr"),
            ("TCA_NETEM_DELAY_DIST", "none"),
            ("TCA_NETEM_REORDER", "netem_reorder"),
            ("TCA_NETEM_CORRUPT", "netem_corrupt"),
            ("TCA_NETEM_LOSS", "netem_loss"),
            ("TCA_NETEM_RATE", "netem_rate"),
            ("TCA_NETEM_ECN", "uint32"),
            ("TCA_NETEM_RATE64", "uint64"),
            ("TCA_NETEM_PAD", "hex"),
            ("TCA_NETEM_LATENCY64", "int64"),
            ("TCA_NETEM_JITTER64", "int64"),
            ("TCA_NETEM_SLOT", "hex"),
            ("TCA_NETEM_SLOT_DIST", "hex"),
            ("TCA_NETEM_PRNG_SEED", "uint64"),
        )

        class netem_loss(nla):  # type: ignore[misc]  # noqa: N801
            nla_map = (
                ("NETEM_LOSS_UNSPEC", "none"),
                ("NETEM_LOSS_GI", "hex"),
                ("NETEM_LOSS_GE", "gemodel"),
            )

            class gemodel(nla):  # type: ignore[misc]  # noqa: N801
                fields = (("p", "I"), ("r", "I"), ("h", "I"), ("k1", "I"))


plugins["netem"] = _Netem


def _u32(ratio: float) -> int:
    return round(ratio * _U32_MAX)
