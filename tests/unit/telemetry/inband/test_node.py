from __future__ import annotations

import sys
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nl80211 import nl80211cmd
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import tcmsg
from pyroute2.netlink.rtnl.tcmsg.sched_fq_codel import options as fq_codel
from typer.testing import CliRunner

from telemetry.inband import node_errors, radio
from telemetry.inband.commands import app
from telemetry.inband.device import Interface
from telemetry.inband.node import NodeCounters, NodeSpec, Role
from telemetry.inband.node_commands import summary, trusts_no_sender
from telemetry.inband.queues import Queue, queue_of
from telemetry.inband.radio import ANY_ADDRESS, has_radio, radios_of
from telemetry.ioam.model import State

WIRED = Interface(name="eth0", index=2, mtu_bytes=1500, link_bytes=14, wireless=False, is_veth=False)
FAST = msgspec.structs.replace(WIRED, speed_bytes_per_s=125_000_000)
WIRELESS = Interface(name="wlan0", index=3, mtu_bytes=1500, link_bytes=14, wireless=True, is_veth=False)
STATIONS = ("02:00:00:00:01:00", "02:00:00:00:02:00")


def qdisc(kind: str, parent: int = TC_H_ROOT, handle: int = 0x10000, options: Any = None) -> tcmsg:
    message = tcmsg()
    message["parent"], message["handle"] = parent, handle
    message["attrs"] = [("TCA_KIND", kind), ("TCA_OPTIONS", options)]
    return message


def with_attributes(nla: Any, **attributes: Any) -> Any:
    nla["attrs"] = list(attributes.items())
    return nla


class Losing(dict[str, Any]):
    """Options of netem, as dictionaries: pyroute2's class cannot be extended after its first instance."""

    def get_attr(self, name: str) -> Any:
        return self.get(name)


def station(address: str, **info: Any) -> nl80211cmd:
    known = with_attributes(
        nl80211cmd.STAInfo(), **{f"NL80211_STA_INFO_{name}": one for name, one in info.items()}
    )
    return with_attributes(nl80211cmd(), NL80211_ATTR_MAC=address, NL80211_ATTR_STA_INFO=known)


def channel(noise: int, **flags: Any) -> nl80211cmd:
    info = with_attributes(nl80211cmd.survey_info(), NL80211_SURVEY_INFO_NOISE=noise, **flags)
    return with_attributes(nl80211cmd(), NL80211_ATTR_SURVEY_INFO=info)


def test_an_interface_without_a_queue_has_an_empty_one_unless_the_driver_hides_it() -> None:
    assert queue_of([qdisc("noqueue"), qdisc("clsact", 0xFFFFFFF1)], WIRED) == Queue(
        known=True, unlimited=True, packet_bytes=1514, drops="early"
    )
    assert queue_of([qdisc("noqueue")], WIRELESS) == Queue(known=False, packet_bytes=1514)


def test_the_limit_is_that_of_the_only_discipline_below_the_root() -> None:
    codel = with_attributes(fq_codel(), TCA_FQ_CODEL_LIMIT=1000)
    root = qdisc("htb")
    assert queue_of([qdisc("fq_codel", options=codel)], WIRED).limit_pkts == 1000
    assert queue_of([root, qdisc("fq_codel", 0x10001, 0x20000, codel)], WIRED).limit_pkts == 1000
    assert queue_of([root, qdisc("fq_codel", 0x10001, 0x20000, codel)], FAST).link_rate_bytes_per_s is None
    several = [qdisc("fq_codel", 0x10000 + n, 0x20000 * n, codel) for n in (1, 2)]
    assert queue_of([root, *several], WIRED) == Queue(known=True, packet_bytes=1514, drops="late")


@pytest.mark.parametrize(
    ("qdiscs", "drops"),
    [
        ([qdisc("pfifo_fast")], "early"),
        ([qdisc("mq"), qdisc("fq_codel", 0x10001, 0x20000)], "late"),
        ([qdisc("cake")], "unknown"),  # not known
        ([qdisc("netem", options=Losing(limit=9, loss=0))], "early"),
        ([qdisc("netem", options=Losing(limit=9, loss=1))], "unknown"),
        ([qdisc("netem", options=Losing(limit=9, loss=0, TCA_NETEM_LOSS="bursts"))], "unknown"),
    ],
)
def test_drops_are_known_of_queues_that_lose_nothing_as_a_link_would(qdiscs: list[tcmsg], drops: str) -> None:
    assert queue_of(qdiscs, WIRED).drops == drops


def test_what_drains_a_queue_is_its_shaper_and_else_the_device() -> None:
    fifo, mq = qdisc("pfifo_fast"), qdisc("mq")
    assert queue_of([fifo], WIRED).link_rate_bytes_per_s is None
    for qdiscs in ([fifo], [qdisc("noqueue")], [mq, qdisc("fq_codel", 0x10001, 0x20000)]):
        assert queue_of(qdiscs, FAST).link_rate_bytes_per_s == 125_000_000
    assert queue_of([qdisc("cake")], FAST).link_rate_bytes_per_s is None  # it may shape


def test_the_air_to_each_station_is_known_and_the_only_one_stands_for_all() -> None:
    rate = with_attributes(
        nl80211cmd.STAInfo.rate_info(), NL80211_RATE_INFO_BITRATE32=650, NL80211_RATE_INFO_MCS=7
    )
    first = station(STATIONS[0], SIGNAL=-50, TX_FAILED=3, TX_BITRATE=rate)
    survey = [channel(0xA0), channel(256 - 92, NL80211_SURVEY_INFO_IN_USE=True)]
    known = State(lost_pkts=3, rssi_dbm=-50, snr_db=42, data_rate_bytes_per_s=8_125_000, mcs=7)
    address = (2, 0, 0, 0, 1, 0)
    one = radios_of([first], survey)
    assert [(found.address, found.state) for found in one] == [(address, known), (ANY_ADDRESS, known)]
    both = radios_of([first, station(STATIONS[1])], [])
    assert [one.address for one in both] == [address, (2, 0, 0, 0, 2, 0)]
    assert both[0].state.snr_db is None
    assert both[1].state == State()


def test_nl80211_knows_which_interface_has_a_radio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Air:
        def get_interface_by_ifindex(self, index: int) -> tuple[()]:
            if index != 4:
                raise NetlinkError(19, "no such device")
            return ()

        def close(self) -> None:
            pass

    monkeypatch.setattr(radio, "IW", Air)
    monkeypatch.setattr(radio, "_ANY_RADIO", tmp_path)
    assert has_radio(4)
    assert not has_radio(3)
    monkeypatch.setattr(radio, "_ANY_RADIO", tmp_path / "none")
    assert not has_radio(4)


def test_the_command_says_what_happened_without_what_did_not() -> None:
    none = dict.fromkeys(NodeCounters.__struct_fields__, 0)
    assert summary(NodeCounters(**none)) == "no packets"
    assert summary(NodeCounters(**{**none, "filled": 3, "overflowed": 1})) == "filled 3, overflowed 1"


@pytest.mark.parametrize(
    ("roles", "trusted", "warns"),
    [
        (("source", "transit", "sink"), None, True),
        (("reader",), None, True),
        (("source", "transit"), None, False),
        (("sink", "reader"), IPv6Network("::/0"), False),
    ],
)
def test_a_node_that_trusts_no_sender_says_so(
    roles: tuple[Role, ...], trusted: IPv6Network | None, warns: bool
) -> None:
    note = trusts_no_sender(NodeSpec(roles=roles, trusted=trusted))
    assert (note is not None) == warns
    assert note is None or "--from-prefix" in note


def test_no_sender_is_trusted_by_default() -> None:
    assert NodeSpec(roles=("sink",)).trusted is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--role", "source,spy"], "no role `spy`"),
        (["--to-prefix", "10.0.0.0/8"], "`10.0.0.0/8` is not an IPv6 prefix"),
        (["--from-prefix", "fd00::1/8"], "`fd00::1/8` is not an IPv6 prefix"),
    ],
)
def test_what_the_command_does_not_know_is_refused(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["node", "nowhere0", *arguments])
    assert done.exit_code == 1
    slug, _, what = done.stderr.splitlines()[0].partition(": ")
    assert (slug, what) == ("int.bad_option", said)


def test_without_the_native_module_a_node_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccplane.base", None)
    done = CliRunner().invoke(app, ["node", "nowhere0"])
    assert done.exit_code == 1
    assert done.stderr.partition(":")[0] == "int.not_built"


def test_every_error_is_tested() -> None:
    kernel = Path(__file__).parents[3] / "kernel" / "test_inband_command.py"
    tests = Path(__file__).read_text() + kernel.read_text()
    assert [slug for slug in node_errors.SLUGS if f'"{slug}"' not in tests] == []
