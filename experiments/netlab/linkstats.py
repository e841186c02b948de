"""What became of packets on a link, and how exact the emulator was."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct


class LinkStats(Struct, frozen=True, kw_only=True):
    """Counters of one direction of a link since it was made; sizes count IP packets.

    Attributes:
        queue_bytes: Waiting now.
        queue_pkts: Waiting now.
        arrived_pkts: Given to the link.
        arrived_bytes: Given to the link.
        delivered_pkts: Handed on at its end, duplicates included.
        delivered_bytes: Handed on at its end, duplicates included.
        dropped_loss_pkts: Lost at random or by number.
        dropped_queue_pkts: Refused by a full buffer.
        dropped_aqm_pkts: Dropped by RED or CoDel.
        dropped_policer_pkts: Without tokens.
        marked_pkts: Marked CE.
        duplicated_pkts: Sent twice.
        corrupted_pkts: With a bit flipped.
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


SAMPLE_COLUMNS: Final = ("t_us", "link", *LinkStats.__struct_fields__, "sojourn_max_us")
"""Columns of a file of samples: time on CLOCK_MONOTONIC, direction of a link, its counters, and the longest
time that a packet waited in the interval."""


class Lateness(Struct, frozen=True):
    """How much later than due packets left the emulator.

    Attributes:
        p50: Half of them at most [us].
        p99: 99 of 100 at most [us].
        max: The latest one [us].
    """

    p50: float
    p99: float
    max: float


class IntStats(Struct, frozen=True):
    """What became of headers of in-band telemetry.

    Attributes:
        inserted_pkts: Packets that got headers.
        no_room_pkts: Packets that went without, because they would have been larger than the MTU.
        filled_pkts: Packets into which a node wrote; one that met three nodes counts three times.
        overflowed_pkts: Packets in which a node found no room any more.
        reflected_pkts: ACKs that got an echo of the path.
        removed_pkts: Packets whose headers were taken off.
        unreadable_pkts: Packets whose headers no node could read; they went on as they were.
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
    """How well the emulator did, and what happened to packets beside the links.

    Attributes:
        lateness_us: Its own error of delays.
        unroutable_pkts: Packets to addresses that no host has, such as multicast.
        expired_pkts: Packets whose TTL or hop limit was used up at a router.
        unreadable_frames: What hosts sent that is no IP packet.
        unwritable_pkts: Packets that a host did not take.
        untaken_pkts: Packets (with segmentation offload: of up to 64 KiB) that hosts sent faster than the
            emulator took them; lost before the first link.
        cpu_s: Processor time of its process so far [s].
        telemetry: What became of headers, where there is in-band telemetry; `int` in plain data.
        int_summaries_dropped: Summaries of sinks that nobody took in time.
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
