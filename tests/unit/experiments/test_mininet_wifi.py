from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments import mininet_wifi
from experiments.demo.command import app as ccp_demo
from experiments.mininet_wifi import demo, int_demo, radios, show
from experiments.mininet_wifi.chain import Chain, Port
from experiments.mininet_wifi.errors import SLUGS, WifiError
from experiments.mininet_wifi.findings import AIR_ID, MIN_PKTS, WIRE_ID, Finding, Seen, findings
from experiments.mininet_wifi.recorded import PACKETS, RECEIVED, read
from experiments.netlab.errors import LabError
from telemetry.ioam import IoamFlow, Node, Placed, Record, Trace, TraceField, insert
from telemetry.schema import FlowId, IntHop, IntSummary
from tests.unit.telemetry.ioam.packets import udp, write_pcap

FLOW = FlowId(src="fd78:1::2", src_port=40_000, dst="fd78:2::2", dst_port=5201)
WIRE = IntHop(node_id=WIRE_ID, queue_depth_pkts=12, queue_free_pkts=30, arrival_pkts_per_s=350)
AIR = IntHop(node_id=AIR_ID, rssi_dbm=-30.0, data_rate_bytes_per_s=1_625_000)


def record(*node_ids: int) -> Record:
    trace = Trace(trace_type=TraceField.NODE, nodes=tuple(Node(node_id=number) for number in node_ids))
    return Record(
        packet=1,
        bytes=1500,
        captured_bytes=400,
        flow=IoamFlow(src=FLOW.src, dst=FLOW.dst),
        options=(Placed(header="hop_by_hop", offset=44, option=trace),),
    )


def summary(**fields: Any) -> IntSummary:
    known = {"received_pkts": 19, "lost_pkts": 1, "lost_link_pkts": 1, "lost_congestion_pkts": 0}
    return IntSummary(flow=FLOW, **{"hops": (WIRE, AIR), **known, **fields})


def seen(**changes: Any) -> Seen:
    good = {
        "packets": [record(WIRE_ID, AIR_ID)] * MIN_PKTS,
        "summaries": [summary()] * 100,
        "n_delivered": 100,
        "windows_bytes": {"cubic": [10_000, 12_000], "keep": [20_000, 40_000]},
        "loss_ratio": 0.05,
    }
    return Seen(**{**good, **changes})


def broken(found: list[Finding]) -> list[str]:
    return [one.what for one in found if not one.holds]


def test_a_good_run_shows_everything() -> None:
    assert broken(findings(seen())) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"packets": [record(WIRE_ID)] * MIN_PKTS}, "packets carry"),
        ({"packets": [record(WIRE_ID, AIR_ID)] * (MIN_PKTS - 1)}, "packets carry"),
        ({"packets": []}, "packets carry"),
        ({"n_delivered": 0}, "algorithm receives"),
        ({"windows_bytes": {"cubic": [10_000], "keep": [12_000]}}, "window grows"),
        ({"windows_bytes": {"keep": [12_000]}}, "window grows"),
        ({"loss_ratio": 0.2}, "report the losses"),
        ({"summaries": [summary(lost_pkts=3, lost_congestion_pkts=2)] * 100}, "losses to the air"),
        (
            {"summaries": [summary(lost_pkts=0, lost_link_pkts=0)] * 100, "loss_ratio": 0.0},
            "losses to the air",
        ),
    ],
)
def test_what_is_not_so_is_found(changes: dict[str, Any], words: str) -> None:
    (what,) = broken(findings(seen(**changes)))
    assert words in what


@pytest.mark.parametrize(
    ("hops", "words"),
    [
        ((IntHop(node_id=WIRE_ID, queue_free_pkts=30, arrival_pkts_per_s=350), AIR), "queue of the wire"),
        ((IntHop(node_id=WIRE_ID, queue_depth_pkts=1, arrival_pkts_per_s=350), AIR), "room in that queue"),
        ((IntHop(node_id=WIRE_ID, queue_depth_pkts=1, queue_free_pkts=9), AIR), "arrivals at the wire"),
        ((WIRE, IntHop(node_id=AIR_ID, rssi_dbm=-30.0)), "data rate of the air"),
        ((WIRE, IntHop(node_id=AIR_ID, data_rate_bytes_per_s=1)), "signal of the air"),
    ],
)
def test_a_field_that_no_summary_has_is_found(hops: tuple[IntHop, ...], words: str) -> None:
    (what,) = broken(findings(seen(summaries=[summary(hops=hops)] * 100)))
    assert words in what


def test_a_queue_that_is_never_used_is_no_measured_queue() -> None:
    idle = IntHop(node_id=WIRE_ID, queue_depth_pkts=0, queue_free_pkts=0, arrival_pkts_per_s=350)
    (what,) = broken(findings(seen(summaries=[summary(hops=(idle, AIR))] * 100)))
    assert "queue of the wire" in what


def test_summaries_without_an_access_point_do_not_count() -> None:
    few = [summary()] * 19 + [summary(hops=(WIRE,))] * 81
    (what,) = broken(findings(seen(summaries=few)))
    assert "sink publishes" in what


def test_the_account_of_a_run_is_read_back(tmp_path: Path) -> None:
    trace = Trace(trace_type=TraceField.NODE, remaining_words=2)
    write_pcap(tmp_path / PACKETS, [insert(udp(), [trace])])
    received = {
        "stream": "telemetry",
        "kind": "int_summary",
        "body": {
            "kind": "int_summary",
            "flow": {"src": FLOW.src, "src_port": 40_000, "dst": FLOW.dst, "dst_port": 5201},
            "received_pkts": 3,
        },
    }
    report = {"stream": "report", "phase": "cubic", "settled": True, "cwnd_bytes": 14_280}
    rows = [
        received | {"phase": "keep", "settled": True},
        received | {"kind": "receiver_signal", "phase": "keep", "settled": True},
        report,
        report | {"settled": False},
        report | {"phase": "keep", "cwnd_bytes": 28_560},
    ]
    (tmp_path / RECEIVED).write_text("".join(json.dumps(row) + "\n" for row in rows))
    account = read(tmp_path, 0.05)
    assert len(account.packets) == 1
    assert account.summaries == [IntSummary(flow=FLOW, received_pkts=3)]
    assert account.n_delivered == 1
    assert account.windows_bytes == {"cubic": [14_280], "keep": [28_560]}


def test_findings_are_kept_and_shown(tmp_path: Path) -> None:
    found = [Finding("it is so", True, "5 of 5"), Finding("it is not", False, "0 of 5")]
    show.write_findings(tmp_path, found)
    assert show.read_findings(tmp_path) == found
    assert [list(column.cells) for column in show.table(found).columns] == [
        ["yes", "NO"],
        ["it is so", "it is not"],
        ["5 of 5", "0 of 5"],
    ]


def test_an_access_point_has_an_open_network_on_its_channel() -> None:
    assert {"interface=wlan0", "ssid=here", "channel=11", "ieee80211n=1"} <= set(
        radios.hostapd_config("here", 11).splitlines()
    )


class Broken:
    name = "ap1"
    ipv6 = "fd78::1"

    def run(self, args: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(args, 0, "Not connected.\n", "")

    def popen(self, args: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        say = ["sh", "-c", "echo it broke >&2; exit 1"]
        return subprocess.Popen(say, text=True, start_new_session=True, **options)


class Deaf:
    def ask(self, what: object) -> list[dict[str, Any]]:
        return []


HOST: Any = Broken()
AGENT: Any = Deaf()


def test_without_mininet_wifi_the_demo_says_what_else_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mn_wifi", None)
    with pytest.raises(WifiError) as caught, int_demo.mininet_chain():
        pass
    assert caught.value.slug == "wifi.no_mininet"
    assert "ccp demo wifi" in caught.value.fix


def test_mininet_wifi_that_gives_up_does_not_end_the_demo_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(int_demo, "which", lambda program, where: program)
    with pytest.raises(WifiError) as caught, contextlib.ExitStack() as stack:
        int_demo.build(lambda: sys.exit(1), stack)
    assert caught.value.slug == "wifi.mininet_ended"
    assert "status 1" in caught.value.why


def test_a_program_that_mininet_wifi_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int_demo, "PROGRAMS", ("no-such-program",))
    with pytest.raises(LabError) as caught, contextlib.ExitStack() as stack:
        int_demo.build(lambda: sys.exit(1), stack)
    assert caught.value.slug == "lab.no_command"
    assert "no-such-program" in str(caught.value)


def test_help_needs_no_mininet_wifi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mn_wifi", None)
    done = CliRunner().invoke(ccp_demo, ["wifi", "--help"])
    assert done.exit_code == 0
    assert "in-band telemetry" in done.output


@pytest.mark.parametrize("loaded", [True, False])
def test_radios_of_another_or_none_are_reported_apart(monkeypatch: pytest.MonkeyPatch, loaded: bool) -> None:
    monkeypatch.setattr(radios, "MODULE", "kernel" if loaded else "no_such_module")
    monkeypatch.setattr(radios, "which", lambda program, where: "/bin/false")
    with pytest.raises(WifiError) as caught, radios.simulated_radios(1):
        pass
    assert caught.value.slug == "wifi.no_radios"
    assert ("loaded already" in caught.value.why) == loaded


def test_an_access_point_that_does_not_come_up_is_quoted() -> None:
    with pytest.raises(WifiError) as caught:
        radios.start_access_point(HOST, "here", 1)
    assert caught.value.slug == "wifi.not_up"
    assert "it broke" in caught.value.why


def test_a_station_that_finds_nothing_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radios, "TIMEOUT_S", 0.0)
    with pytest.raises(WifiError) as caught:
        radios.wait_joined(HOST, "wlan0", "here")
    assert caught.value.slug == "wifi.not_joined"


def test_a_node_that_does_not_start_is_quoted() -> None:
    port = Port(HOST, "wlan0")
    with (
        pytest.raises(WifiError) as caught,
        demo.running_nodes(Chain(port, port, port, port, HOST, "a", "b")),
    ):
        pass
    assert caught.value.slug == "wifi.no_node"
    assert caught.value.why == "it exited with status 1: it broke"


def test_a_capture_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(WifiError) as caught, demo.capturing(Port(HOST, "wlan0"), tmp_path / "x"):
        pass
    assert caught.value.slug == "wifi.no_capture"


def test_a_flow_that_does_not_come_is_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "TIMEOUT_S", 0.0)
    with pytest.raises(WifiError) as caught:
        demo.flow_id(AGENT)
    assert caught.value.slug == "wifi.no_flow"


def test_the_list_of_errors_is_what_the_code_raises() -> None:
    slug = re.compile(r'"(wifi\.[a-z_]+)[":]')
    sources = [file for file in Path(mininet_wifi.__file__).parent.glob("*.py") if file.name != "errors.py"]
    raised = {one for file in sources for one in slug.findall(file.read_text())}
    tests = [Path(__file__), Path(__file__).with_name("test_demo_wifi.py")]
    assert raised == set(SLUGS)
    assert raised <= {one for file in tests for one in slug.findall(file.read_text())}
