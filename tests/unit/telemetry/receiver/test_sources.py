from __future__ import annotations

import shutil
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.receiver import echo
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.probing import received_us
from telemetry.receiver.proc import COUNTERS, HostCounters, parse_netstat, parse_snmp6
from telemetry.receiver.reports import PeerReports
from telemetry.receiver.tcp import FIELDS, parse_tcp_info
from telemetry.schema import FlowId, ReceiverSignal, RegimeDecision, Sample

RECORDED = Path(__file__).parent / "data/6.18"
TOKEN = bytes(range(8))
OWN, PEER = "10.0.0.2", "10.0.0.1"


def test_marks_and_duplicates_are_read_from_the_counters_that_exist() -> None:
    known = parse_netstat((RECORDED / "netstat").read_text()) | parse_snmp6((RECORDED / "snmp6").read_text())
    assert {part for parts in COUNTERS.values() for part in parts} <= known.keys()
    assert "TcpExtECNRecvCE" not in known
    assert HostCounters(RECORDED).read() == {"ce": 40 + 2, "duplicates": 11 + 4}


def test_counters_that_a_kernel_lacks_are_none(tmp_path: Path) -> None:
    (tmp_path / "netstat").write_text("TcpExt: TW TCPDSACKOldSent\nTcpExt: 1 2\nIpExt: InCEPkts\nIpExt: 3\n")
    assert HostCounters(tmp_path).read() == {"ce": 3, "duplicates": None}  # no file snmp6: no IPv6, no marks


def test_files_that_cannot_be_read_are_an_error_that_says_so(tmp_path: Path) -> None:
    shutil.copy(RECORDED / "netstat", tmp_path / "netstat")
    counters = HostCounters(tmp_path)
    (tmp_path / "netstat").unlink()
    with pytest.raises(ReceiverError) as caught:
        counters.read()
    assert caught.value.slug == "receiver.no_counters"


@given(st.text())
def test_any_text_is_parsed_or_passed_over(text: str) -> None:
    assert all(isinstance(value, int) for value in parse_netstat(text).values())
    assert all(isinstance(value, int) for value in parse_snmp6(text).values())


def test_fields_lie_where_the_kernels_header_has_them() -> None:
    raw = bytearray(280)
    for number, (offset, form) in enumerate(FIELDS.values(), 1):
        struct.pack_into(form, raw, offset, number)
    assert list(parse_tcp_info(bytes(raw)).values()) == [1, 2, 3, 4, 5, 6]


def test_an_older_kernels_tcp_info_is_shorter_and_lacks_fields() -> None:
    values = parse_tcp_info(bytes(232))  # Linux 5.4 to 6.6
    assert values["ce"] is None
    assert values["out_of_order"] == 0
    assert set(parse_tcp_info(b"").values()) == {None}


def test_this_kernels_own_tcp_info_is_read() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        near.sendall(b"x" * 1000)
        assert far.recv(1000, socket.MSG_WAITALL) == b"x" * 1000
        values = parse_tcp_info(far.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1024))
    assert values["bytes_received"] == 1000
    assert values["data_in"] == 1
    assert values["data_out"] == values["retrans"] == values["out_of_order"] == 0


@pytest.mark.parametrize("version", [4, 6])
def test_an_icmp_reply_gives_the_probe_back(version: int) -> None:
    payload = echo.probe(TOKEN, 70_000)
    request = echo.icmp_request(version, 7, 70_000, payload)
    assert request[0] == echo.ICMP_ECHO_REQUEST[version]
    assert struct.unpack_from("!HH", request, 4) == (7, 70_000 % 65536)
    if version == 4:
        assert echo.checksum(request) == 0
    assert (
        echo.icmp_payload(version, request, has_ip_header=False) == b""
    )  # this host's own request on loopback
    reply = bytes([echo.ICMP_ECHO_REPLY[version]]) + request[1:]
    assert echo.number_of(echo.icmp_payload(version, reply, has_ip_header=False), TOKEN) == 70_000
    with_options = b"\x46" + bytes(23) + reply
    assert echo.icmp_payload(4, with_options, has_ip_header=True) == (payload if version == 4 else b"")


@given(st.binary(max_size=100))
def test_whatever_comes_is_no_probe_of_own(data: bytes) -> None:
    for version in (4, 6):
        for has_ip_header in (False, True):
            payload = echo.icmp_payload(version, data, has_ip_header=has_ip_header)
            assert echo.number_of(payload, TOKEN) is None
    assert echo.number_of(data, TOKEN) is None


def test_a_responder_answers_requests_only_and_with_as_many_bytes() -> None:
    request = echo.probe(TOKEN, 5)
    reply = echo.answer(request)
    assert reply is not None
    assert len(reply) == len(request)
    assert echo.number_of(reply, TOKEN) == 5
    assert echo.answer(reply) is None  # two responders would answer each other forever
    assert echo.answer(request + b"x") is None
    assert echo.number_of(reply, TOKEN[::-1]) is None


def test_an_answer_counts_once_in_time_and_from_whom_was_asked() -> None:
    waiting = echo.Outstanding()
    waiting.sent(PEER, 1, 1000)
    assert waiting.answered(OWN, 1, 1500) is None
    assert waiting.answered(PEER, 2, 1500) is None
    assert waiting.answered(PEER, 1, 1500) == 500
    assert waiting.answered(PEER, 1, 1600) is None
    waiting.sent(PEER, 3, 2000)
    assert waiting.answered(PEER, 3, 2000 + echo.TIMEOUT_US + 1) is None
    waiting.sent(PEER, 4, 0)
    waiting.sent(PEER, 5, echo.TIMEOUT_US + 1)
    assert waiting.answered(PEER, 4, 1) is None  # forgotten, so that dead peers use no memory
    assert waiting.answered(PEER, 5, echo.TIMEOUT_US + 2) == 1


def test_answers_are_timed_by_the_kernels_stamp() -> None:
    stamp = (socket.SOL_SOCKET, 35, struct.pack("=qq", 100, 999_000_000))
    assert received_us([stamp], 5_000_000, 101_000_000_000) == 5_000_000 - 1000
    assert received_us([], 5_000_000, 101_000_000_000) == 5_000_000
    for wall_ns in (0, 500_000_000_000):  # the wall clock was set meanwhile
        assert received_us([stamp], 5_000_000, wall_ns) == 5_000_000


def report(
    loss_pkts: int | None,
    sent_us: int,
    received_us: int,
    *,
    peer: str = OWN,
    sender: str = "far",
    flow: FlowId | None = None,
) -> Sample:
    body = ReceiverSignal(flow=flow, peer=peer, address=PEER, window_ms=1, loss_pkts=loss_pkts)
    return Sample(
        kind="receiver_signal",
        body=body,
        sender=sender,
        topic="",
        received_us=received_us,
        sent_mono_us=sent_us,
    )


def test_what_a_peer_sent_again_is_what_it_reports_as_lost_on_the_way_to_us() -> None:
    reports = PeerReports()
    reports.take(report(3, 1000, 10), [OWN])
    reports.take(report(4, 2000, 20), [OWN])
    reports.take(report(9, 2000, 20, peer="10.9.9.9"), [OWN])  # about another host
    reports.take(report(None, 3000, 25), [OWN])
    own = FlowId(src=PEER, src_port=1, dst=OWN, dst_port=2)
    reports.take(report(4, 3000, 25, flow=own), [OWN])  # already in its peer's signal
    other = Sample(kind="", body=RegimeDecision(regime="SHARED"), sender="far", topic="", received_us=1)
    reports.take(other, [OWN])
    assert reports.close(PEER, 0, 10) == 3
    assert reports.close(PEER, 10, 30) == 4
    assert reports.close(PEER, 30, 40) is None
    assert reports.close(OWN, 0, 40) is None


def test_windows_that_overlap_are_counted_once() -> None:
    reports = PeerReports()
    for sent_us in range(5000, 9001, 250):
        reports.take(report(2, sent_us, sent_us), [OWN])
    assert reports.close(PEER, 0, 10_000) == 2 * 5  # windows of 1 ms, over 5 ms


def test_a_peer_that_restarted_is_received_again() -> None:
    reports = PeerReports()
    reports.take(report(1, 10**9, 10), [OWN])
    reports.take(report(1, 5000, 20), [OWN])
    reports.take(report(1, 5100, 30, sender="other"), [OWN])
    assert reports.close(PEER, 0, 100) == 3
