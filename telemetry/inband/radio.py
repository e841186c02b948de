"""State of a wireless interface's link to each station, from nl80211."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from pyroute2.iwutil import IW
from pyroute2.netlink.exceptions import NetlinkError

from telemetry.ioam.model import State

ANY_ADDRESS: Final = (0,) * 6
"""Address that stands for all stations that are not listed."""

_BYTES_PER_S: Final = 12_500
"""Unit of nl80211's bit rates, 100 kbit/s [bytes/s]."""
_ANY_RADIO: Final = Path("/sys/class/ieee80211")
"""Missing if the kernel lacks nl80211; then pyroute2 would fail and leave sockets open."""
_MCS: Final = ("MCS", "VHT_MCS", "HE_MCS", "EHT_MCS")


class Radio(msgspec.Struct, kw_only=True, frozen=True):
    """The wireless link to a station, as input of the native node.

    Attributes:
        address: Hardware address.
        state: Its signal and lost packets.
    """

    address: tuple[int, ...]
    state: State


class Radios:
    """Reads the state of an interface's wireless links; use it in a `with` block."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._iw = IW()

    def close(self) -> None:
        """Close nl80211."""
        self._iw.close()

    @property
    def family(self) -> int:
        """The generic netlink family of nl80211."""
        return int(self._iw.prid)

    def read(self) -> list[Radio]:
        """Return the current state of all links."""
        return radios_of(list(self._iw.get_stations(self._index)), list(self._iw.survey(self._index)))


def has_radio(index: int) -> bool:
    """Return whether the interface with this index is wireless.

    /sys also shows this, but only for the network namespace in which it was mounted.
    """
    if not _ANY_RADIO.exists():
        return False
    try:
        with contextlib.closing(IW()) as iw:
            iw.get_interface_by_ifindex(index)
    except NetlinkError:  # not a wireless interface
        return False
    return True


def radios_of(stations: Sequence[Any], survey: Sequence[Any]) -> list[Radio]:
    """Convert nl80211's answers for the node.

    Returns:
        An entry per station; a single entry stands for all addresses, because an access point forwards for
        other stations.
    """
    noise_dbm = next(_noises(survey), None)
    found = [
        Radio(address=_address(one), state=_state(one.get_attr("NL80211_ATTR_STA_INFO"), noise_dbm))
        for one in stations
    ]
    if len(found) == 1:
        found.append(Radio(address=ANY_ADDRESS, state=found[0].state))
    return found


def _address(station: Any) -> tuple[int, ...]:
    return tuple(int(byte, 16) for byte in station.get_attr("NL80211_ATTR_MAC").split(":"))


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _noises(survey: Sequence[Any]) -> Iterator[int]:
    for channel in survey:
        info = channel.get_attr("NL80211_ATTR_SURVEY_INFO")
        if info is None or "NL80211_SURVEY_INFO_IN_USE" not in dict(info["attrs"]):
            continue
        noise = info.get_attr("NL80211_SURVEY_INFO_NOISE")
        if noise is not None:
            yield _signed(noise)


def _state(info: Any, noise_dbm: int | None) -> State:
    signal = info.get_attr("NL80211_STA_INFO_SIGNAL")
    signal_dbm = None if signal is None else _signed(signal)
    rate = info.get_attr("NL80211_STA_INFO_TX_BITRATE")
    bitrate = mcs = None
    if rate is not None:
        bitrate = rate.get_attr("NL80211_RATE_INFO_BITRATE32") or rate.get_attr("NL80211_RATE_INFO_BITRATE")
        found = (rate.get_attr(f"NL80211_RATE_INFO_{name}") for name in _MCS)
        mcs = next((index for index in found if index is not None), None)
    return State(
        lost_pkts=info.get_attr("NL80211_STA_INFO_TX_FAILED"),
        rssi_dbm=signal_dbm,
        snr_db=None if signal_dbm is None or noise_dbm is None else signal_dbm - noise_dbm,
        data_rate_bytes_per_s=None if bitrate is None else bitrate * _BYTES_PER_S,
        mcs=mcs,
    )
