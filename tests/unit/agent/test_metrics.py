"""Metrics over real HTTP, of an agent with made-up flows."""

from __future__ import annotations

import http.client
import select
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.options import BusOptions
from ccp_algs import Algorithm
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.audit import AuditLog
from ccplane.agent.events import KINDS
from ccplane.agent.inbox import Inbox
from ccplane.agent.metrics import MetricsAddress, MetricsServer, listening
from ccplane.agent.metrics.families import AgentCollector
from ccplane.agent.metrics.server import MAX_CONNECTIONS, MAX_HEAD_BYTES
from ccplane.agent.telemetry_dispatch import TelemetryDispatch
from ccplane.base.errors import LoadError, UsageError
from experiments.netlab.sockets import free_port
from tests.unit.agent.fakes import FakeCreated, FakeDatapath, FakeInfo, FakeProgram, FakeStats
from tests.unit.agent.test_agent_loop import running

MAX_SERIES = 500


class Counting(FakeDatapath):
    def __init__(self) -> None:
        super().__init__()
        self.now_us = 1_000_000
        self.totals: dict[int, FakeStats] = {}

    def stats(self, flow_id: int) -> FakeStats | None:
        return self.totals.get(flow_id)

    def counters(self) -> dict[str, int]:
        return {
            **super().counters(),
            "max_flows": 100,
            "flows_active": 3,
            "fallback_entries_failed": 2,
            "without_slot_quota": 6,
        }

    def silences(self) -> tuple[list[tuple[int, int]], int]:
        return [(1_000, 90), (200_000, 9), (1 << 64, 1)], 3_000_000


def loop_of(datapath: FakeDatapath, names: Sequence[str] = ("a", "b")) -> AgentLoop:
    classes = [type(name, (Algorithm,), {"name": name, "program": "x"}) for name in names]
    return AgentLoop(
        datapath,  # type: ignore[arg-type]
        [running(cls, default=FakeProgram()) for cls in classes],
    )


def scraped(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of a scrape by name of the sample, then by labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_flows_are_reported_by_algorithm_and_what_came_to_the_fallback_by_cause() -> None:
    datapath = Counting()
    agent_loop = loop_of(datapath)
    datapath.feed(*(FakeCreated(FakeInfo(flow_id)) for flow_id in (1, 2, 3)))
    agent_loop.turn(0)
    for flow_id in (1, 2, 3):
        datapath.totals[flow_id] = FakeStats(flow_id, fallback=False, srtt_us=20_000, now_us=1_000_000)
    now_s = [0.0]
    collector = AgentCollector(agent_loop, None, None)
    with closing(MetricsServer(MetricsAddress(), collector, clock_s=lambda: now_s[0])) as server:
        server.start(lambda: None)
        first = scraped(server.port)
        now_s[0] += 15
        datapath.totals[1] = FakeStats(
            1,
            fallback=False,
            srtt_us=20_000,
            bytes_acked=5_000,
            lost_pkts=1,
            delivered_pkts=9,
            now_us=1_500_000,
        )
        datapath.totals[2] = FakeStats(2, fallback=True, fallback_cause="failed", now_us=1_000_000)
        second = scraped(server.port)
    assert first["ccplane_flows"] == {("a",): 3}
    assert first["ccplane_slots"] == {("used",): 3, ("free",): 97}
    assert first["ccplane_fallback_entries_total"][("failed",)] == 2
    assert first["ccplane_flow_rtt_seconds_bucket"][("a", "0.01")] == 0
    assert first["ccplane_flow_rtt_seconds_bucket"][("a", "0.03")] == 3
    assert first["ccplane_heartbeat_silence_seconds_bucket"] == {("0.001",): 90, ("0.2",): 99, ("+Inf",): 100}
    assert first["ccplane_heartbeat_silence_seconds_sum"] == {(): 3.0}
    assert second["ccplane_throughput_bytes_per_second"] == {("a",): 10_000}
    assert second["ccplane_flow_throughput_bytes_per_second_bucket"][("a", "10000")] == 3
    assert second["ccplane_flow_loss_ratio_bucket"][("a", "0.01")] == 0
    assert second["ccplane_flow_loss_ratio_bucket"][("a", "0.1")] == 1
    assert second["ccplane_flows_in_fallback"][("failed",)] == 1
    assert second["ccplane_sockets_without_slot"] == {("limit",): 0, ("quota",): 6}


def test_events_and_lines_that_the_audit_log_lost_are_counted() -> None:
    agent_loop = loop_of(FakeDatapath())
    audit_log = AuditLog(Path("/dev/full"))
    with listening(MetricsAddress(), agent_loop, audit_log=audit_log) as server:
        agent_loop.events.emit("canary:taken_back", "a", why="worse")
        agent_loop.events.emit("own:kind", "a")
        audit_log.add({"uid": 0}, "stop", {}, "done")
        server.start(lambda: None)
        found = scraped(server.port)
    audit_log.close()
    assert found["ccplane_events_total"] == {(kind,): kind == "canary:taken_back" for kind in KINDS}
    assert found["ccplane_audit_errors_total"] == {(): 1}


def test_the_time_without_a_broker_is_reported() -> None:
    agent_loop = loop_of(FakeDatapath())
    inbox = Inbox(BusOptions(port=free_port()), sender="a")
    dispatch = TelemetryDispatch(agent_loop, inbox, "a", lambda: 0)
    inbox.start()
    with listening(MetricsAddress(), agent_loop, dispatch, inbox) as server:
        server.start(lambda: None)
        away = scraped(server.port)["ccplane_bus_away_seconds"][()]
    inbox.stop()
    assert away > 0


def test_many_flows_and_algorithms_make_few_series() -> None:
    datapath = Counting()
    agent_loop = loop_of(datapath, [f"a{number}" for number in range(20)])
    for number, host in enumerate(agent_loop.hosts.values()):
        datapath.feed(*(FakeCreated(FakeInfo(500 * number + i, cc_name=host.cc_name)) for i in range(500)))
        agent_loop.turn(0)
    for flow_id in agent_loop.flows:
        datapath.totals[flow_id] = FakeStats(flow_id, fallback=False, srtt_us=flow_id + 1, now_us=1_000_000)
    with listening(MetricsAddress(), agent_loop) as server:
        server.start(lambda: None)
        found = scraped(server.port)
    assert sum(found["ccplane_flows"].values()) == 10_000
    assert found["ccplane_flows"][("other",)] == 5_000
    assert sum(map(len, found.values())) <= MAX_SERIES


def test_a_unix_socket_is_answered_and_removed(tmp_path: Path) -> None:
    place = tmp_path / "metrics.sock"
    with listening(MetricsAddress.from_text(f"unix:{place}"), loop_of(FakeDatapath())) as server:
        server.start(lambda: None)
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(place))
        connection.request("GET", "/metrics")
        assert b"ccplane_agent_reports_total 0.0" in connection.getresponse().read()
        connection.close()
    assert not place.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9464", MetricsAddress("127.0.0.1", 9464)),
        ("0.0.0.0:9464", MetricsAddress("0.0.0.0", 9464)),
        ("[::1]:9464", MetricsAddress("::1", 9464)),
        ("unix:/run/x", MetricsAddress("", 0, Path("/run/x"))),
    ],
)
def test_address_is_read(text: str, expected: MetricsAddress) -> None:
    assert MetricsAddress.from_text(text) == expected


@pytest.mark.parametrize("text", ["", "here", "host:", "1.2.3.4:70000", "unix:"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        MetricsAddress.from_text(text)
    assert caught.value.slug == "metrics.bad_address"


def test_a_port_that_is_taken_is_an_error() -> None:
    agent_loop = loop_of(FakeDatapath())
    with listening(MetricsAddress(), agent_loop) as server, pytest.raises(LoadError) as caught:
        MetricsServer(MetricsAddress("127.0.0.1", server.port), AgentCollector(agent_loop, None, None))
    assert caught.value.slug == "metrics.cannot_listen"


def test_without_the_extra_its_name_is_reported() -> None:
    script = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from ccplane.agent.metrics import MetricsAddress, MetricsServer\n"
        "from ccplane.base.errors import LoadError\n"
        "try:\n    MetricsServer(MetricsAddress(), None)\n"
        "except LoadError as error:\n    print(error.fix)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("pip install 'ccplane[metrics]'")


class Counted:
    """A collector that counts its collections, and fails on request."""

    def __init__(self) -> None:
        self.collections = 0
        self.fails = False

    def collect(self) -> Iterator[Metric]:
        self.collections += 1
        if self.fails:
            raise ValueError("no metrics")
        yield GaugeMetricFamily("ccplane_collections", "Collections.", value=self.collections)


def test_concurrent_scrapers_cost_one_collection_and_one_thread() -> None:
    counted, now_s, before = Counted(), [0.0], threading.active_count()
    with closing(MetricsServer(MetricsAddress(), counted, clock_s=lambda: now_s[0])) as server:
        server.start(lambda: None)
        with ThreadPoolExecutor(20) as scrapers:
            found = list(scrapers.map(lambda _: scraped(server.port), range(100)))
        assert threading.active_count() == before + 1
        assert {one["ccplane_collections"][()] for one in found} == {1.0}
        now_s[0] += 1
        assert scraped(server.port)["ccplane_collections"] == {(): 2.0}
    assert counted.collections == 2


def test_idle_connections_are_closed_and_exclude_no_scraper() -> None:
    before = threading.active_count()
    with ExitStack() as around:
        server = around.enter_context(closing(MetricsServer(MetricsAddress(), Counted())))
        server.start(lambda: None)
        idle = [
            around.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            for _ in range(10 * MAX_CONNECTIONS)
        ]
        assert scraped(server.port)["ccplane_collections"] == {(): 1.0}
        assert threading.active_count() == before + 1
        closed, _, _ = select.select(idle, [], [], 10)
        assert len(idle) - len(closed) <= MAX_CONNECTIONS


@pytest.mark.parametrize("sent", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: me\r\n"])
def test_a_client_that_does_not_finish_its_request_is_disconnected(sent: bytes) -> None:
    with closing(MetricsServer(MetricsAddress(), Counted(), timeout_s=0.1)) as server:
        server.start(lambda: None)
        with socket.create_connection(("127.0.0.1", server.port), 10) as client:
            client.sendall(sent)
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_a_client_that_does_not_read_is_disconnected() -> None:
    class Large(Counted):
        def collect(self) -> Iterator[Metric]:
            yield GaugeMetricFamily("ccplane_large", "x" * 16_000_000, value=1)

    with closing(MetricsServer(MetricsAddress(), Large(), timeout_s=0.1)) as server:
        server.start(lambda: None)
        with socket.create_connection(("127.0.0.1", server.port), 10) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            hung_up = select.poll()
            hung_up.register(client, select.POLLHUP | select.POLLERR | select.POLLRDHUP)
            assert hung_up.poll(10_000)


def test_a_head_without_end_is_cut_off() -> None:
    with closing(MetricsServer(MetricsAddress(), Counted(), timeout_s=1e6)) as server:
        server.start(lambda: None)
        with socket.create_connection(("127.0.0.1", server.port), 10) as client:
            client.sendall(b"GET /" + b"x" * 2 * MAX_HEAD_BYTES)
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_other_methods_are_refused_and_errors_reported(caplog: pytest.LogCaptureFixture) -> None:
    counted, now_s = Counted(), [0.0]
    with closing(MetricsServer(MetricsAddress(), counted, clock_s=lambda: now_s[0])) as server:
        server.start(lambda: None)

        def status(method: str) -> tuple[int, int]:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            connection.request(method, "/metrics")
            with connection.getresponse() as answer:
                return answer.status, len(answer.read())

        assert status("POST")[0] == 405
        assert status("HEAD") == (200, 0)
        counted.fails = True
        for _ in range(2):
            now_s[0] += 15
            assert status("GET")[0] == 500
        counted.fails = False
        now_s[0] += 15
        assert status("GET")[0] == 200
    assert len(caplog.messages) == 1


def test_listening_asks_no_name_server() -> None:
    script = (
        "import sys; asked = []\n"
        "sys.addaudithook(lambda event, args: event.startswith('socket.get') and asked.append(event))\n"
        "from ccplane.agent.metrics import MetricsAddress, MetricsServer\n"
        "MetricsServer(MetricsAddress('0.0.0.0')).close()\n"
        "print(asked)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_unix_socket_is_for_the_user_and_the_group(tmp_path: Path) -> None:
    place = tmp_path / "metrics.sock"
    with closing(MetricsServer(MetricsAddress.from_text(f"unix:{place}"))):
        assert place.stat().st_mode & 0o777 == 0o660


def test_only_the_socket_of_a_killed_agent_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "metrics.sock"
    address = MetricsAddress.from_text(f"unix:{place}")
    with closing(MetricsServer(address)):
        with pytest.raises(LoadError) as caught:
            MetricsServer(address)
        assert caught.value.slug == "metrics.cannot_listen"
        assert place.is_socket()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(place))
    with closing(MetricsServer(address)):
        pass
    place.write_text("mine")
    with pytest.raises(LoadError):
        MetricsServer(address)
    assert place.read_text() == "mine"
