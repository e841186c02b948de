from __future__ import annotations

import contextlib
import io
import json
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from telemetry import commands
from telemetry.receiver import errors, probing, receiver, sockets, table
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.output import Moment, json_line
from telemetry.receiver.peers import own_address, resolve
from telemetry.receiver.probing import Prober, Responder
from telemetry.receiver.receiver import Options, Receiver
from telemetry.receiver.times import times
from telemetry.regime.modes import MODES
from telemetry.schema import About, FlowId, ReceiverSignal, RegimeDecision
from tests.repeating import repeating

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"


def cli(*args: str) -> Any:
    return CliRunner().invoke(commands.app, list(args))


@pytest.mark.parametrize(
    ("window_ms", "interval_ms", "probe_ms"),
    [(0, 1, 1), (1000, 300, 50), (500, 1000, 50), (10_000, 1, 1), (1, 1, 0)],
)
def test_times_that_do_not_go_together_are_refused(window_ms: int, interval_ms: int, probe_ms: int) -> None:
    with pytest.raises(ReceiverError) as caught:
        Options(window_ms=window_ms, interval_ms=interval_ms, probe_ms=probe_ms)
    assert caught.value.slug == "receiver.bad_option"


def test_peers_are_addresses_in_one_spelling_or_names() -> None:
    assert resolve("::ffff:10.0.0.1") == "10.0.0.1"
    assert resolve("2001:DB8:0::1") == "2001:db8::1"
    assert resolve("localhost") in {LOOPBACK, "::1"}
    with pytest.raises(ReceiverError) as caught:
        resolve("no such host")
    assert caught.value.slug == "receiver.bad_peer"


def test_our_own_address_is_that_of_the_route() -> None:
    assert own_address(LOOPBACK) == LOOPBACK
    assert own_address("255.255.255.255") is None


def test_the_command_line_prints_errors_and_fails() -> None:
    for args, slug in (
        (["--window", "5", "--interval", "2"], "receiver.bad_option"),
        (["--probe", "carrier-pigeon"], "receiver.bad_option"),
        (["--peer", "no such host"], "receiver.bad_peer"),
        (["--broker", "http://here"], "bus.bad_url"),
        (["--netns", "/proc/none/ns/net"], "receiver.no_netns"),
        (["--regime", "--regime-mode", "hasty"], "regime.bad_option"),
        (["--regime", "--param", "delta=5"], "regime.bad_option"),
        (["--param", "delta_ms=5"], "receiver.bad_option"),
    ):
        result = cli(*args)
        assert result.exit_code == 1
        assert slug in result.output


def test_a_port_in_use_is_refused() -> None:
    responder = Responder(0, LOOPBACK)
    with pytest.raises(ReceiverError) as caught:
        Responder(responder.port, LOOPBACK)
    responder.close()
    assert caught.value.slug == "receiver.no_port"


def test_without_any_source_there_is_nothing_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(probing, "_open", refuse)
    monkeypatch.setattr(sockets, "DiagSocket", refuse)
    with pytest.raises(ReceiverError) as caught:
        Prober([LOOPBACK], 1000, lambda: 0)
    assert caught.value.slug == "receiver.no_icmp"
    with pytest.raises(ReceiverError) as caught:
        sockets.SocketTable()
    assert caught.value.slug == "receiver.no_sockets"
    missing = ReceiverError("receiver.no_counters", "cannot read")

    class NoCounters:
        def __init__(self) -> None:
            raise missing

    class NoProbe:
        def __init__(self) -> None:
            raise ReceiverError("receiver.no_kernel_probe", "not permitted")

    monkeypatch.setattr(receiver, "HostCounters", NoCounters)
    monkeypatch.setattr(receiver, "KernelProbe", NoProbe)
    monkeypatch.setattr(receiver, "kernel_counts_ce", lambda: True)
    with pytest.raises(ReceiverError) as caught:
        Receiver(Options(peers=(LOOPBACK,)), lambda _: None)
    assert caught.value.slug == "receiver.nothing_to_measure"
    for slug in (
        "receiver.no_icmp",
        "receiver.no_sockets",
        "receiver.no_counters",
        "receiver.no_kernel_probe",
    ):
        assert slug in caught.value.why


def test_every_error_has_a_test_that_names_it() -> None:
    tests = "".join(file.read_text() for file in HERE.glob("test_*.py"))
    assert [slug for slug in errors.SLUGS if f'"{slug}"' not in tests] == []


@pytest.mark.parametrize("address", [LOOPBACK, "::1"])
def test_udp_probes_are_answered_and_timed(address: str) -> None:
    responder = Responder(0)
    prober = Prober([address], 1000, receiver.monotonic_us, "udp", responder.port)
    found: list[probing.Rtt] = []
    while len(found) < 3:
        found += prober.poll()
        responder.poll()
    prober.close()
    responder.close()
    assert {rtt.peer for rtt in found} == {address}
    assert all(0 <= rtt.rtt_us < 10_000_000 for rtt in found)
    assert prober.answered == len(found) <= prober.sent
    assert responder.answered >= 3


def test_probes_go_out_at_equal_distances_and_missed_turns_are_not_made_up_for() -> None:
    now_us = 0
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((LOOPBACK, 0))
    prober = Prober([LOOPBACK], 100, lambda: now_us, "udp", sink.getsockname()[1])
    sent = []
    for now_us in (0, 50, 99, 100, 199, 200, 1030, 1099, 1100):  # noqa: B007 the prober's clock
        prober.poll()
        sent.append(prober.sent)
    assert sent == [1, 1, 1, 2, 2, 3, 4, 4, 5]
    prober.close()
    sink.close()


def test_signals_come_at_the_end_of_every_interval_until_reported_to_stop() -> None:
    found: list[ReceiverSignal] = []

    def take(signals: Sequence[ReceiverSignal]) -> None:
        found.extend(signals)
        if len(found) >= 4 and any(one.rtt_samples for one in found):
            agent.request_stop()

    responder = Responder(0)
    with (
        contextlib.closing(responder),
        repeating(responder.poll, 0.001),
        socket.create_server((LOOPBACK, 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        agent = Receiver(Options((LOOPBACK,), 100, 50, "udp", 5, responder.port), take)
        near.sendall(b"x" * 5000)
        far.recv(5000, socket.MSG_WAITALL)
        agent.run()
    assert {(one.peer, one.address) for one in found} == {(LOOPBACK, LOOPBACK)}
    assert all((one.window_ms or 0) >= 50 for one in found)
    assert (found[0].flows or 0) >= 2
    assert found[0].goodput_bytes_per_s


def test_a_json_line_has_all_fields_and_null_for_what_is_missing() -> None:
    line = json.loads(json_line(ReceiverSignal(peer="10.0.0.1", ce_marks=0), Moment(5, 7)))
    assert set(line) == {"kind", "t_wall_us", "t_mono_us", *ReceiverSignal.__struct_fields__}
    assert (line["kind"], line["t_wall_us"], line["t_mono_us"]) == ("receiver_signal", 5, 7)
    assert line["ce_marks"] == 0
    assert line["rtt_p99_us"] is None


def test_the_table_reports_missing_from_zero() -> None:
    out = io.StringIO()
    console = Console(width=200, file=out)
    console.print(
        table.render([ReceiverSignal(peer="10.0.0.1", ce_marks=0, rtt_p99_us=12_345)], "broker away")
    )
    (row,) = (line.split() for line in out.getvalue().splitlines() if "10.0.0.1" in line)
    assert row == ["10.0.0.1", "-", "-", "-", "12.35", "-", "-", "-", "0", *"-------"]


def test_the_table_has_a_peers_flows_below_it() -> None:
    out = io.StringIO()
    flow = FlowId(src="10.0.0.1", src_port=40_000, dst="10.0.0.2", dst_port=80)
    signals = [
        ReceiverSignal(peer="10.0.0.1", owd_variation_us=2_000),
        ReceiverSignal(peer="10.0.0.3"),
        ReceiverSignal(peer="10.0.0.1", flow=flow, owd_variation_us=1_500),
    ]
    Console(width=200, file=out).print(table.render(signals))
    rows = [line.split() for line in out.getvalue().splitlines()[2:]]
    assert [row[:3] for row in rows if row][-3:] == [
        ["10.0.0.1", "-", "-"],
        [":40000", ">", ":80"],
        ["10.0.0.3", "-", "-"],
    ]
    assert [word for row in rows for word in row if word in {"2.00", "1.50"}] == ["2.00", "1.50"]


def test_the_table_has_the_regime_of_each_peer_where_one_is_decided() -> None:
    flow = FlowId(src="10.0.0.1", src_port=40_000, dst="10.0.0.2", dst_port=80)
    signals = [
        ReceiverSignal(peer="10.0.0.1"),
        ReceiverSignal(peer="10.0.0.1", flow=flow),
        ReceiverSignal(peer="10.0.0.3"),
    ]
    decision = RegimeDecision(peer="10.0.0.1", regime="SHARED", density=0.4, estimate="SINGLE_OWNER")
    out = io.StringIO()
    Console(width=250, file=out).print(table.render(signals, decisions={"10.0.0.1": decision}))
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert [row[-3:] for row in rows if len(row) > 5] == [
        ["regime", "density", "estimate"],
        ["SHARED", "0.40", "SINGLE_OWNER"],
        [*"---"],
        [*"---"],
    ]


def test_times_are_as_given_and_else_as_the_mode_has_them() -> None:
    paper = MODES["paper"]
    cases = {
        (None, None, None, None): (1000, 1000, 50),
        (None, None, 200, 10): (200, 200, 10),
        (None, 600, 200, None): (600, 200, 50),
        (paper, None, None, None): (5000, 1000, 200),
        (paper, None, 500, 20): (5000, 500, 20),
        (paper, 300, None, None): (300, 300, 200),
    }
    for asked, expected in cases.items():
        assert times(*asked) == expected


def test_the_document_says_what_every_field_means() -> None:
    text = (HERE.parents[3] / "docs/receiver.md").read_text().partition("## Signals")[2].partition("\n##")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    reported = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert set(reported) == set(ReceiverSignal.__struct_fields__) - set(About.__struct_fields__)
    assert len(reported) == len(set(reported))
