"""Packet counters of links, and the emulator's accuracy."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct


class LinkStats(Struct, frozen=True, kw_only=True):
    """Counters of one direction of a link since its creation; sizes count IP packets.

    Attributes:
        queue_bytes: Bytes in the queue.
        queue_pkts: Packets in the queue.
        arrived_pkts: Packets that entered the link.
        arrived_bytes: Bytes that entered the link.
        delivered_pkts: Packets delivered at its end, duplicates included.
        delivered_bytes: Bytes delivered at its end, duplicates included.
        dropped_loss_pkts: Packets lost at random or by number.
        dropped_queue_pkts: Packets dropped by a full buffer.
        dropped_aqm_pkts: Packets dropped by active queue management.
        dropped_policer_pkts: Packets dropped for lack of tokens.
        marked_pkts: Packets marked CE.
        duplicated_pkts: Packets sent twice.
        corrupted_pkts: Packets with a flipped bit.
        late_pkts: Packets that took the longer way.
        dropped_ack_pkts: Superfluous ACKs.
        dropped_mtu_pkts: Packets too large for a tunnel.
    """

    queue_bytes: int
    queue_pkts: int
    arrived_pkts: int
    arrived_bytes: int
    delivered_pkts: int
    delivered_bytes: int
    dropped_loss_pkts: int
    dropped_queue_pkts: int
    dropped_aqm_pkts: int
    dropped_policer_pkts: int
    marked_pkts: int
    duplicated_pkts: int
    corrupted_pkts: int
    late_pkts: int
    dropped_ack_pkts: int
    dropped_mtu_pkts: int


SAMPLE_COLUMNS: Final = ("t_us", "link", *LinkStats.__struct_fields__, "sojourn_max_us")
"""Columns of a file of samples: time on CLOCK_MONOTONIC, direction of a link, its counters, and the maximum
queueing time of a packet in the interval."""


class Lateness(Struct, frozen=True):
    """Delay of packets by the emulator beyond their due time.

    Attributes:
        p50: Median [us].
        p99: 99th percentile [us].
        max: Maximum [us].
    """

    p50: float
    p99: float
    max: float


class IntStats(Struct, frozen=True):
    """Counters of in-band telemetry headers.

    Attributes:
        inserted_pkts: Packets that got headers.
        no_room_pkts: Packets without headers, because they would have exceeded the MTU.
        filled_pkts: Writes by nodes; a packet that passed three nodes counts three times.
        overflowed_pkts: Packets without room for a node's data.
        reflected_pkts: ACKs that got an echo of the path.
        removed_pkts: Packets whose headers were removed.
        unreadable_pkts: Packets whose headers no node could read; they were forwarded unchanged.
        malformed_pkts: Packets whose telemetry the sink could not read.
    """

    inserted_pkts: int
    no_room_pkts: int
    filled_pkts: int
    overflowed_pkts: int
    reflected_pkts: int
    removed_pkts: int
    unreadable_pkts: int
    malformed_pkts: int


class EmulatorStats(Struct, frozen=True):
    """The emulator's accuracy, and packets that never entered a link.

    Attributes:
        lateness_us: Error of delays.
        unroutable_pkts: Packets to addresses that no host has, such as multicast.
        expired_pkts: Packets whose TTL or hop limit expired at a router.
        unreadable_frames: Frames of hosts that are not IP packets.
        unwritable_pkts: Packets that a host did not accept.
        untaken_pkts: Packets (up to 64 KiB with segmentation offload) that hosts sent faster than the
            emulator read them; lost before the first link.
        cpu_s: CPU time of the process so far [s].
        telemetry: Counters of in-band telemetry, if enabled; `int` in plain data.
        int_summaries_dropped: Summaries of sinks that were not read in time.
    """

    lateness_us: Lateness
    unroutable_pkts: int
    expired_pkts: int
    unreadable_frames: int
    unwritable_pkts: int
    untaken_pkts: int
    cpu_s: float
    telemetry: IntStats | None = msgspec.field(name="int", default=None)
    int_summaries_dropped: int = 0
