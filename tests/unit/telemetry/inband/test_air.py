"""mac80211's queues, from recorded answers of nl80211.

The answers are those of a simulated radio of Linux 6.12.95 (Debian's), recorded in the virtual machine of
`python -m scripts.vm.wifi`: a station that had left the channel, with seven queued packets, and a station
whose queues had a limit of 20 packets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2.netlink.nl80211 import MarshalNl80211, nl80211cmd

from telemetry.inband import air as air_module
from telemetry.inband.air import FRESH_NS, LOOK_S, READ_S, Air, AirQueues, Waiting, limit_pkts, waiting_of
from telemetry.inband.queues import Queue, queue_of
from telemetry.inband.radio import ANY_ADDRESS
from telemetry.inband.txq import Backlog, Limits, answers_in, backlogs_of, limits_of
from tests.unit.telemetry.inband.test_node import WIRELESS, qdisc

ANSWERS = json.loads(Path(__file__).with_name("nl80211-6.12.json").read_text())
FAMILY = ANSWERS["family"]
OTHER_END = (2, 0, 0, 0, 0, 0)
MTU_BYTES, PACKET_BYTES = 1500, 1534


def answer(name: str) -> Iterator[memoryview]:
    return answers_in(memoryview(bytes.fromhex(ANSWERS[name])))


def by_pyroute2(name: str) -> dict[str, int]:
    marshal = MarshalNl80211()
    marshal.msg_map = {FAMILY: nl80211cmd}
    (message,) = list(marshal.parse(bytes.fromhex(ANSWERS[name])))
    tids = message.get_attr("NL80211_ATTR_STA_INFO").get_attr("NL80211_STA_INFO_TID_STATS")
    queues = [tid.get_attr("NL80211_TID_STATS_TXQ_STATS") for tid in tids]
    names = ("BACKLOG_BYTES", "BACKLOG_PACKETS")
    return {one: sum(q.get_attr(f"NL80211_TXQ_STATS_{one}") for q in queues if q) for one in names}


def test_what_waits_is_read_as_pyroute2_does() -> None:
    for name, pkts in (("nothing", 0), ("waiting", 7)):
        (backlog,) = backlogs_of(answer(name))
        assert (backlog.address, backlog.waiting_pkts) == (OTHER_END, pkts)
        reported = {"BACKLOG_BYTES": backlog.waiting_bytes, "BACKLOG_PACKETS": backlog.waiting_pkts}
        assert by_pyroute2(name) == reported


def test_limits_are_those_of_the_radio() -> None:
    assert limits_of(answer("wiphy")) == Limits(8192, 1 << 24)
    assert limits_of(answer("limited")) == Limits(20, 1 << 24)
    assert limits_of(answer("waiting")) is None


def test_a_driver_that_reports_nothing_leaves_the_queue_unknown() -> None:
    reported = bytes.fromhex(ANSWERS["waiting"])
    assert backlogs_of([memoryview(reported)[20:60]]) == []
    queue = queue_of([qdisc("noqueue")], WIRELESS)
    assert (queue.known, queue.unlimited, queue.drops, queue.air) == (False, False, "unknown", None)


def test_what_mac80211_drops_is_known_where_it_reports_its_queues() -> None:
    air = Air(limit_pkts=40)
    assert queue_of([qdisc("noqueue")], WIRELESS, air) == Queue(
        known=False, packet_bytes=1514, drops="early", air=air
    )
    assert queue_of([qdisc("pfifo_fast")], WIRELESS, air).air == air
    several = [qdisc("mq"), qdisc("fq_codel", 0x10001, 0x20000), qdisc("fq_codel", 0x10002, 0x30000)]
    assert queue_of(several, WIRELESS, air).air == air


def test_room_is_by_the_limit_that_full_size_packets_reach_first() -> None:
    assert limit_pkts(Limits(8192, 1 << 24), PACKET_BYTES) == (1 << 24) // (2 * PACKET_BYTES)
    assert limit_pkts(Limits(20, 1 << 24), PACKET_BYTES) == 20


def test_each_station_has_its_own_and_all_share_the_room() -> None:
    near, far = Backlog((2, 0, 0, 0, 1, 0), 3 * PACKET_BYTES + 1, 9), Backlog((2, 0, 0, 0, 2, 0), 0, 0)
    assert waiting_of([near, far], 5, PACKET_BYTES) == [
        Waiting(address=near.address, read_ns=5, pkts=4, all_pkts=9),
        Waiting(address=far.address, read_ns=5, pkts=0, all_pkts=9),
    ]
    alone = waiting_of([near], 5, PACKET_BYTES)
    assert [(one.address, one.pkts) for one in alone] == [(near.address, 4), (ANY_ADDRESS, 4)]


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


class Station:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.backlog = Backlog(OTHER_END, 0, 0)
        self.takes_ns = 0
        self.neighbours = False

    def limits(self) -> Limits:
        return Limits(20, 1 << 24)

    def has_neighbours(self) -> bool:
        return self.neighbours

    def read(self) -> list[Backlog]:
        self.clock.now_ns += self.takes_ns
        return [self.backlog]


def test_queues_are_read_often_while_packets_come_or_wait_and_not_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(air_module, "time", clock)
    station = Station(clock)
    queues = AirQueues(station, MTU_BYTES)  # type: ignore[arg-type]
    came_ns = clock.now_ns
    assert queues.read(0) is not None  # the first call always reads
    assert queues.read(came_ns) is None
    assert queues.wait_s(came_ns) == READ_S
    clock.now_ns += int(READ_S * 1e9)
    assert queues.read(came_ns) is not None
    clock.now_ns = came_ns + FRESH_NS + 1
    assert queues.read(came_ns) is None
    assert queues.wait_s(came_ns) == LOOK_S
    # Reading takes at most a tenth of the time, and continues until the queue is empty.
    came_ns, station.takes_ns = clock.now_ns, 2_000_000
    station.backlog = Backlog(OTHER_END, PACKET_BYTES, 1)
    assert queues.read(came_ns) is not None
    assert queues.wait_s(came_ns) == pytest.approx(0.018)
    clock.now_ns += FRESH_NS
    assert queues.read(came_ns) is not None


def test_the_room_is_not_known_where_others_share_the_radio() -> None:
    station = Station(Clock())
    queues = AirQueues(station, MTU_BYTES)  # type: ignore[arg-type]
    assert queues.air() == Air(limit_pkts=20)
    station.neighbours = True
    assert queues.air() == Air()
