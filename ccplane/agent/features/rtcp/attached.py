"""The congestion controls of R-TCP, registered, and the verdicts on clients that they come to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import LIMIT_STATES
from ccp_algs.rtcp.remote import Remote
from ccplane.agent.features.rtcp import native
from ccplane.agent.features.rtcp.acks import AckRecorder
from ccplane.agent.features.rtcp.kept import Kept
from ccplane.agent.features.rtcp.metrics import RATE_BOUNDS
from ccplane.agent.features.rtcp.rules import BoundRule
from telemetry.bus import mono_us, wall_us

log = logging.getLogger("ccplane.rtcp")

MAX_CLIENTS: Final = 65_536
"""Clients there is room for, unless told otherwise: 512 bytes each, taken when they come."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What is known of a client has become something else.

    Attributes:
        kind: `verdict`.
        t_mono_us: When, CLOCK_MONOTONIC [us].
        t_wall_us: The same by the wall clock [us].
        netns: Inode of the network namespace that the connections are in.
        client: Their other end, as `Remote.name` has it.
        state: `limited`: there is a limit, and tokens enough not to mind; `capped`, `probing`, `raised`:
            what is sent is bounded by the rate, by a little more, or by much more; `gone`.
        bucket_bytes: Estimated bucket size [bytes].
        rate_bytes_per_s: Estimated rate limit [bytes/s].
        tokens_bytes: Estimated level of the bucket [bytes].
        active_flows: Connections with something to send.
    """

    kind: str = "verdict"
    t_mono_us: int
    t_wall_us: int
    netns: int
    client: str
    state: str
    bucket_bytes: int
    rate_bytes_per_s: int
    tokens_bytes: int
    active_flows: int


class Attachment:
    """R-TCP's congestion controls are there to be chosen while it is open."""

    def __init__(
        self,
        options: Options,
        *,
        max_clients: int = MAX_CLIENTS,
        recorder: AckRecorder | None = None,
        rules: Sequence[BoundRule] = (),
        keep_in: str | None = None,
    ) -> None:
        """Register them.

        Args:
            options: Parameters of detector and limiter.
            max_clients: Sockets of further clients are not bounded; a warning says so, once.
            recorder: Gets every ACK; None: ACKs are not recorded.
            rules: Which sockets are bounded, the first that matches; all, if there are none.
            keep_in: Folder in a BPF file system where the table of clients outlives this process, and is
                taken over from those before; None: it does not.

        Raises:
            LoadError: `load.no_native_module`.
            CcpError: `rtcp.not_permitted`, `rtcp.name_taken`, `rtcp.no_struct_ops`, `rtcp.no_original`,
                `rtcp.too_many_rules`, `rtcp.refused` or `trace.no_btf`.
        """
        self._recorder = recorder
        self._dropped = 0
        self._max_clients = max_clients
        self._native = native.attached(
            options.to_bytes(),
            max_clients=max_clients,
            records=recorder is not None,
            rules_json=msgspec.json.encode(list(rules)),
            keep_in=keep_in,
        )
        self._no_room = self._native.no_room
        self._was_full = False
        self.verdicts = 0
        """How many it has come to."""
        self.names: Final = self._native.names
        """What sockets can choose: `rtcp_cubic` and `rtcp_bbr`, as far as the kernel has CUBIC and BBR."""
        self.kept: Final = Kept(*self._native.kept)
        """What became of the table of those before."""
        if self._native.not_kept is not None:
            log.warning("%s", self._native.not_kept)

    def summary(self) -> dict[str, Any]:
        """Return the table of clients in numbers, as `ccplane.agent.features.rtcp.metrics` wants them."""
        return self._native.summary(RATE_BOUNDS)

    def turn(self) -> list[Verdict]:
        """Return the verdicts since the last call, and warn of what was lost.

        Raises:
            CcpError: `rtcp.refused` or `trace.refused`.
        """
        if self._recorder is not None:
            self._recorder.take(self._native.drain_acks())
        offset_us = wall_us() - mono_us()
        verdicts = [verdict_of(row, offset_us + int(row["t_us"])) for row in self._native.drain()]
        self.verdicts += len(verdicts)
        dropped = self._native.dropped
        if dropped != self._dropped:
            log.warning("%d verdicts or recorded ACKs were lost: too many at once", dropped)
            self._dropped = dropped
        if not self._was_full and self._native.no_room > self._no_room:
            self._was_full = True
            log.warning(
                "connections to further clients are not bounded: there is room for %d (--max-clients); "
                "`ccp rtcp show` counts them",
                self._max_clients,
            )
        return verdicts

    def close(self) -> list[Verdict]:
        """Take the names away, and return the last verdicts. Sockets that have one keep it to their end."""
        try:
            return self.turn()
        finally:
            self._native.close()
            if self._recorder is not None:
                self._recorder.close()


def verdict_of(row: Any, t_wall_us: int) -> Verdict:
    """Return a row of `RtcpAttached.drain`.

    Args:
        row: The row.
        t_wall_us: Its time by the wall clock [us].
    """
    return Verdict(
        t_mono_us=int(row["t_us"]),
        t_wall_us=t_wall_us,
        netns=int(row["netns"]),
        client=Remote.from_bytes(row["remote"].tobytes()).name,
        state=LIMIT_STATES[int(row["verdict"])],
        bucket_bytes=int(row["bucket_bytes"]),
        rate_bytes_per_s=int(row["rate_bytes_per_s"]),
        tokens_bytes=int(row["tokens_bytes"]),
        active_flows=int(row["active_flows"]),
    )
