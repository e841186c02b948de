"""Reads mac80211's own queues through nl80211.

The queues are read often, and pyroute2 needs milliseconds to decode the answer for one station. Only two
numbers of an answer matter here, so this module parses only these two; the numbers of messages and attributes
come from pyroute2.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nl80211 import NL80211_NAMES, nl80211cmd

_NETLINK_GENERIC: Final = 16  # <linux/netlink.h>
_RECEIVED_BYTES: Final = 1 << 16
_MESSAGE: Final = struct.Struct("=IHHII")
_GENERIC: Final = struct.Struct("=BBH")
_ATTRIBUTE: Final = struct.Struct("=HH")
_U32: Final = struct.Struct("=I")
_I32: Final = struct.Struct("=i")
_TYPE: Final = 0x3FFF
"""Removes the flags of an attribute's type."""


def _number(table: Any, name: str) -> int:
    return [row[0] for row in table.nla_map].index(name)


_TIDS: Final = nl80211cmd.STAInfo.tid_stats
_IFINDEX: Final = _number(nl80211cmd, "NL80211_ATTR_IFINDEX")
_WIPHY: Final = _number(nl80211cmd, "NL80211_ATTR_WIPHY")
_MAC: Final = _number(nl80211cmd, "NL80211_ATTR_MAC")
_STA_INFO: Final = _number(nl80211cmd, "NL80211_ATTR_STA_INFO")
_SPLIT: Final = _number(nl80211cmd, "NL80211_ATTR_SPLIT_WIPHY_DUMP")
_LIMIT: Final = _number(nl80211cmd, "NL80211_ATTR_TXQ_LIMIT")
_MEMORY_LIMIT: Final = _number(nl80211cmd, "NL80211_ATTR_TXQ_MEMORY_LIMIT")
_TID_STATS: Final = _number(nl80211cmd.STAInfo, "NL80211_STA_INFO_TID_STATS")
_TXQ_STATS: Final = _number(_TIDS, "NL80211_TID_STATS_TXQ_STATS")
_BACKLOG_BYTES: Final = _number(_TIDS.txq_stats, "NL80211_TXQ_STATS_BACKLOG_BYTES")
_BACKLOG_PACKETS: Final = _number(_TIDS.txq_stats, "NL80211_TXQ_STATS_BACKLOG_PACKETS")


class Backlog(msgspec.Struct, frozen=True):
    """The queue of a station.

    Attributes:
        address: Its hardware address.
        waiting_bytes: Bytes in all its queues, as counted by mac80211.
        waiting_pkts: Packets in all its queues.
    """

    address: tuple[int, ...]
    waiting_bytes: int
    waiting_pkts: int


class Limits(msgspec.Struct, frozen=True):
    """The limits of all queues of a radio together.

    Attributes:
        limit_pkts: Maximum packets.
        memory_bytes: Maximum kernel memory.
    """

    limit_pkts: int
    memory_bytes: int


class Txqs:
    """mac80211's queues of an interface of this network namespace; close it after use."""

    def __init__(self, index: int, family: int) -> None:
        """Open nl80211 for an interface index, with the generic netlink family of nl80211."""
        self._index = index
        self._family = family
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Close nl80211."""
        self._socket.close()

    def read(self) -> list[Backlog]:
        """Return the current queue of each station for which the driver reports it.

        Raises:
            NetlinkError: If the interface no longer exists.
        """
        return backlogs_of(self._ask("NL80211_CMD_GET_STATION", {_IFINDEX: _U32.pack(self._index)}))

    def limits(self) -> Limits | None:
        """Return the limits of the radio's queues; None if the driver does not use mac80211's queues.

        Raises:
            NetlinkError: If the interface no longer exists.
        """
        which = {_IFINDEX: _U32.pack(self._index), _SPLIT: b""}
        return limits_of(self._ask("NL80211_CMD_GET_WIPHY", which))

    def has_neighbours(self) -> bool:
        """Return whether other interfaces use the same radio, and so share its limits.

        Raises:
            NetlinkError: If the interface no longer exists.
        """
        found = [dict(_flat(message)) for message in self._ask("NL80211_CMD_GET_INTERFACE", {})]
        radios = {_u32(one[_IFINDEX]): _u32(one[_WIPHY]) for one in found if _IFINDEX in one}
        return list(radios.values()).count(radios.get(self._index, -1)) > 1

    def _ask(self, command: str, attributes: dict[int, bytes]) -> Iterator[memoryview]:
        body = _GENERIC.pack(NL80211_NAMES[command], 0, 0)
        for number, value in attributes.items():
            body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), number) + value
        flags = NLM_F_REQUEST | NLM_F_DUMP
        self._socket.send(_MESSAGE.pack(_MESSAGE.size + len(body), self._family, flags, 0, 0) + body)
        while True:
            answer = memoryview(self._socket.recv(_RECEIVED_BYTES))
            yield from answers_in(answer)
            for kind, payload in _messages(answer):
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    code = -_I32.unpack_from(payload)[0]
                    if code:
                        raise NetlinkError(code, os.strerror(code))
                    return


def answers_in(received: memoryview) -> Iterator[memoryview]:
    """Yield the attributes of each of nl80211's messages in received data."""
    for kind, payload in _messages(received):
        if kind not in (NLMSG_DONE, NLMSG_ERROR):
            yield payload[_GENERIC.size :]


def backlogs_of(messages: Iterable[memoryview]) -> list[Backlog]:
    """Return the queues in the answers to NL80211_CMD_GET_STATION, for stations whose driver reports them."""
    found = []
    for message in messages:
        station = dict(_flat(message))
        tids = dict(_flat(station.get(_STA_INFO, _NONE))).get(_TID_STATS, _NONE)
        queues = [
            dict(_flat(reported[_TXQ_STATS]))
            for reported in (dict(_flat(tid)) for _, tid in _flat(tids))
            if _TXQ_STATS in reported
        ]
        if queues:
            raw, pkts = (
                sum(_u32(queue[number]) for queue in queues if number in queue)
                for number in (_BACKLOG_BYTES, _BACKLOG_PACKETS)
            )
            found.append(Backlog(tuple(station[_MAC]), raw, pkts))
    return found


def limits_of(messages: Iterable[memoryview]) -> Limits | None:
    """Return the limits in the answers to NL80211_CMD_GET_WIPHY; None if there are none."""
    reported = {number: value for message in messages for number, value in _flat(message)}
    if _LIMIT not in reported or _MEMORY_LIMIT not in reported:
        return None
    return Limits(_u32(reported[_LIMIT]), _u32(reported[_MEMORY_LIMIT]))


_NONE: Final = memoryview(b"")


def _messages(answer: memoryview) -> Iterator[tuple[int, memoryview]]:
    at = 0
    while at + _MESSAGE.size <= len(answer):
        length, kind, *_ = _MESSAGE.unpack_from(answer, at)
        yield kind, answer[at + _MESSAGE.size : at + length]
        at += max(length + 3 & ~3, _MESSAGE.size)


def _flat(attributes: memoryview) -> Iterator[tuple[int, memoryview]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, number = _ATTRIBUTE.unpack_from(attributes, at)
        yield number & _TYPE, attributes[at + _ATTRIBUTE.size : at + length]
        at += max(length + 3 & ~3, _ATTRIBUTE.size)


def _u32(value: memoryview) -> int:
    return int(_U32.unpack_from(value)[0])
