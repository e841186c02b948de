"""Registers the congestion controls of R-TCP, and returns their verdicts on clients."""

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
"""Default maximum number of clients; each needs 512 bytes, allocated when it connects."""


class Verdict(Struct, frozen=True, kw_only=True):
    """The state of a client's rate limit changed.

    Attributes:
        kind: `verdict`.
        t_mono_us: Time, CLOCK_MONOTONIC [us].
        t_wall_us: Time, wall clock [us].
        netns: Inode of the connections' network namespace.
        client: The client, as in `Remote.name`.
        state: `limited`: a limit exists, but enough tokens are left; `capped`, `probing`, `raised`: sending
            is limited to the rate, to slightly more, or to much more; `gone`: the limit no longer exists.
        bucket_bytes: Estimated bucket size [bytes].
        rate_bytes_per_s: Estimated rate limit [bytes/s].
        tokens_bytes: Estimated level of the bucket [bytes].
        active_flows: Connections with data to send.
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
    """R-TCP's congestion controls, registered until `close`."""

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
            max_clients: Maximum clients; sockets of further clients are not limited, and a warning is logged.
            recorder: Records every ACK; None records none.
            rules: Sockets to limit; the first match decides. Without rules, all sockets.
            keep_in: Folder in a BPF file system that stores the table of clients across restarts; None for
                none.

        Raises:
            LoadError: `load.no_native_module`.
            CcpError: `rtcp.not_permitted`, `rtcp.name_taken`, `rtcp.no_struct_ops`, `rtcp.no_original`,
                `rtcp.too_many_rules`, `rtcp.refused` or `load.no_btf`.
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
        """Number of verdicts so far."""
        self.names: Final = self._native.names
        """Registered names: `rtcp_cubic` and `rtcp_bbr`, if the kernel has CUBIC and BBR."""
        self.kept: Final = Kept(*self._native.kept)
        """What happened to the table of an earlier process."""
        if self._native.not_kept is not None:
            log.warning("%s", self._native.not_kept)

    def summary(self) -> dict[str, Any]:
        """Return the summary of the table of clients for `ccplane.agent.features.rtcp.metrics`."""
        return self._native.summary(RATE_BOUNDS)

    def turn(self) -> list[Verdict]:
        """Return the verdicts since the last call; log a warning about lost ones.

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
            log.warning("lost %d verdicts or recorded ACKs: too many at the same time", dropped)
            self._dropped = dropped
        if not self._was_full and self._native.no_room > self._no_room:
            self._was_full = True
            log.warning(
                "the table of clients is full (%d, --max-clients): connections to further clients are not "
                "limited; `ccp rtcp show` counts them",
                self._max_clients,
            )
        return verdicts

    def close(self) -> list[Verdict]:
        """Unregister, and return the last verdicts. Existing sockets keep their congestion control."""
        try:
            return self.turn()
        finally:
            self._native.close()
            if self._recorder is not None:
                self._recorder.close()


def verdict_of(row: Any, t_wall_us: int) -> Verdict:
    """Return a row of `RtcpAttached.drain`."""
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
