from __future__ import annotations

import json
import os
import pwd
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from ccplane.agent import messages as ask
from ccplane.agent.client import Client
from ccplane.agent.control import ControlOptions, answer_text, control_socket, read_request, stream_address
from ccplane.agent.management import managed
from ccplane.agent.messages import Envelope
from ccplane.base.errors import CcpError, LoadError, UsageError
from ccplane.datapath.ebpf import compile_program
from tests.unit.agent.fakes import FakeBatch, FakeClosed, FakeCreated, FakeInfo, FakeReport, FakeStats
from tests.unit.agent.live import Edited, text

SOURCE = text("""
    beta = Param(0.5, min=0.1, max=0.9, unit="parts", doc="what it does")
    rounds = Param(3, min=0, max=9)

    def on_create(self, info):
        from dataclasses import make_dataclass

        self.n = 0
        self._hidden = 1
        self.table = list(range(1000))
        self.record = make_dataclass("Record", ["n", "times", "_own"])(7, [1, 2], 8)

    def on_report(self, report):
        self.n += 1
        self.flow.set(cwnd_bytes=10_000 + self.n)
""")


class Served(Edited):
    """An agent loop on a separate thread, with a control socket."""

    def __init__(self, directory: Path, source: str = SOURCE, flows: int = 2) -> None:
        super().__init__(directory / "mine.py", source, *range(1, flows + 1))
        self.address = f"ipc://{directory}/a.control.sock"
        self.queue: list[Any] = []
        self._woken = threading.Event()
        self.datapath.poll = self._poll  # type: ignore[method-assign]
        self.datapath.wake = self._woken.set  # type: ignore[method-assign]
        self.turns = 0

    def _poll(self, timeout_ms: int) -> FakeBatch:
        """Wait like a real datapath."""
        if not self.datapath.batches:
            self._woken.wait(timeout_ms / 1000)
        self._woken.clear()
        self.turns += 1
        return self.datapath.batches.popleft() if self.datapath.batches else FakeBatch(())

    def feed(self, *events: Any) -> None:
        self.datapath.feed(*events)
        if hasattr(self, "_woken"):
            self._woken.set()
        else:
            self.agent_loop.turn(0)


@contextmanager
def running(served: Served, **options: Any) -> Iterator[Served]:
    """Run the loop on a thread, with its control socket."""
    with managed(served.agent_loop, compile_program, ControlOptions(served.address, **options)):
        thread = threading.Thread(target=served.agent_loop.run)
        thread.start()
        yield served
        served.agent_loop.request_stop()
        thread.join()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    def start(source: str = SOURCE, flows: int = 2, **options: Any) -> Served:
        return around.enter_context(running(Served(tmp_path, source, flows), **options))

    with ExitStack() as around:
        yield start


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve()


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.address) as made:
        yield made


def test_flows_are_a_table(client: Client) -> None:
    table = client.flows()
    assert list(table.index) == [1, 2]
    assert table.loc[1, "algorithm"] == "mine"
    assert table.loc[2, "program"] == "default"
    assert table.loc[2, "cwnd_bytes"] == 14_480


def test_no_flows_are_an_empty_table(serve: Callable[..., Served]) -> None:
    with Client(serve(flows=0).address) as client:
        assert len(client.flows()) == 0


def test_status_says_what_runs(served: Served, client: Client) -> None:
    status = client.status()
    assert (status["pid"], status["default"], status["flows"]) == (os.getpid(), "mine", 2)
    (algorithm,) = status["algorithms"]
    assert algorithm["file"] == str(served.file)
    assert algorithm["sha256"] == served.agent_loop.hosts["mine"].version.sha256
    assert client.algorithms() == ["mine"]


def test_one_flow_shows_parameters_and_state(client: Client) -> None:
    flow = client.flow(1)
    assert {one["name"]: one["value"] for one in flow["params"]} == {"beta": 0.5, "rounds": 3}
    assert flow["params"][0]["doc"] == "what it does"
    assert flow["state"]["n"] == 0
    assert "_hidden" not in flow["state"]
    assert flow["state"]["table"].endswith("...]")
    assert flow["state"]["record"] == {"n": 7, "times": "[1, 2]"}
    assert flow["telemetry"] == []


def test_one_flow_shows_its_last_report(served: Served, client: Client) -> None:
    assert client.flow(1)["report"] is None
    handle = served.agent_loop.hosts["mine"].programs.all()[0].handle
    now_us = time.monotonic_ns() // 1000
    reports = [FakeReport(flow_id, handle, now_us, acked=flow_id + n) for n in (5, 10) for flow_id in (1, 2)]
    served.datapath.feed(*reports)
    served.datapath.wake()
    while served.agent_loop.counters.reports < 4:
        client.status()
    report = client.flow(1)["report"]
    assert report["fields"] == {"acked": 11}
    assert (report["t_us"], report["missed"], report["timeout"]) == (now_us, 0, False)
    assert 0 <= report["age_ms"] < 60_000
    assert client.flow(2)["report"]["fields"] == {"acked": 12}


def test_unknown_flow_is_an_error_with_all_parts(client: Client) -> None:
    with pytest.raises(CcpError) as caught:
        client.flow(99)
    assert caught.value.slug == "flow.gone"
    assert caught.value.why
    assert caught.value.fix


def test_parameters_read_and_set_as_a_mapping(served: Served, client: Client) -> None:
    assert client.params["beta"] == 0.5
    client.params["beta"] = 0.8
    client.params.flow(2)["mine.beta"] = 0.3
    assert (served.instance(1).beta, served.instance(2).beta) == (0.8, 0.3)
    assert client.params.flow(2)["beta"] == 0.3
    assert dict(client.params) == {"mine.beta": 0.8, "mine.rounds": 3}
    assert len(client.params) == 2
    assert "mine.beta = 0.8" in repr(client.params)
    del client.params["beta"]
    assert served.instance(1).beta == 0.5
    with pytest.raises(KeyError):
        client.params["gamma"]
    with pytest.raises(KeyError):
        del client.params["gamma"]


def test_parameter_by_rule_holds_for_flows_that_match_now_and_later(served: Served, client: Client) -> None:
    served.feed(FakeCreated(FakeInfo(3, dst_port=80)))
    assert client.set({"beta": 0.2}, rule="dport=80") == 1
    served.feed(FakeCreated(FakeInfo(4, dst_port=80)), FakeCreated(FakeInfo(5)))
    while len(client.flows()) < 5:
        pass
    assert [served.instance(i).beta for i in (1, 3, 4, 5)] == [0.5, 0.2, 0.2, 0.5]
    with pytest.raises(CcpError) as caught:
        client.set({"beta": 0.2}, rule="dprt=80")
    assert caught.value.slug == "rule.unknown_key"


def test_source_is_loaded_reloaded_and_refused(served: Served, client: Client) -> None:
    done = client.load(SOURCE.replace("10_000", "20_000"), "mine")
    assert (done["flows"], done["programs"]) == (2, {"default": "kept"})
    with pytest.raises(CcpError) as caught:
        client.load(SOURCE.replace("self.n += 1", "self.m += 1"), "mine")
    assert caught.value.slug == "reload.check_failed"
    assert caught.value.where.startswith("<loaded:mine>:")
    served.file.write_text(SOURCE.replace("10_000", "30_000"))
    with pytest.raises(CcpError):
        client.reload("mine")  # its source is the text now, not the file
    assert client.load(served.file, "mine")["flows"] == 2
    served.file.write_text(SOURCE.replace("10_000", "40_000"))
    assert [one["flows"] for one in client.reload()] == [2]
    kinds = [event["kind"] for event in client.events()]
    assert kinds.count("algorithm:reloaded") == 3
    assert kinds.count("algorithm:refused") == 1


def test_source_is_checked_as_if_it_were_loaded_and_nothing_changes(served: Served, client: Client) -> None:
    before = client.source("mine")
    assert before["text"] == served.file.read_text()
    assert (before["file"], before["class_name"]) == (str(served.file), "Mine")
    installed = len(served.datapath.installed)
    done = client.check(SOURCE.replace("10_000", "20_000"), "mine")
    assert (done["flows"], done["programs"]) == (0, {"default": "kept"})
    changed = client.check(SOURCE.replace("Ack.bytes_acked", "Ack.packets_acked"), "mine")
    assert changed["programs"] == {"default": "replaced"}
    with pytest.raises(CcpError) as caught:
        client.check(SOURCE.replace("self.n += 1", "self.m += 1"), "mine")
    assert caught.value.slug == "reload.check_failed"
    assert client.source("mine") == before
    assert len(served.datapath.installed) == installed
    assert "algorithm:refused" not in [event["kind"] for event in client.events()]


def test_flows_are_switched_one_some_and_all(served: Served, client: Client) -> None:
    client.load(SOURCE.replace("10_000", "50_000"), "other")
    assert client.switch("other", flow=1) == 1
    assert client.flows()["algorithm"].to_dict() == {1: "other", 2: "mine"}
    assert client.switch("other", before="mine") == 1
    served.feed(FakeCreated(FakeInfo(3)))
    while len(client.flows()) < 3:
        pass
    assert client.flows().loc[3, "algorithm"] == "other"
    assert client.switch("mine", rule="dport=80") == 0
    served.feed(FakeCreated(FakeInfo(4, dst_port=80)))
    while len(client.flows()) < 4:
        pass
    assert client.flows().loc[4, "algorithm"] == "mine"
    assert client.switch("mine") == 3
    with pytest.raises(CcpError) as caught:
        client.switch("nobody")
    assert caught.value.slug == "algorithm.unknown"


def subscribed(served: Served, client: Client, *arguments: Any, **options: Any) -> Any:
    """A stream whose subscription has arrived, which takes a moment."""
    stream = client.stream(*arguments, **options)
    while served.agent_loop.on_batch is None and "report" in options.get("kinds", ("report",)):
        time.sleep(0.001)
    return stream


def test_reports_and_decisions_of_a_flow_are_streamed(served: Served, client: Client) -> None:
    with subscribed(served, client, 2, kinds=("report", "decision")) as stream:
        served.feed(*(FakeReport(i, served.handle, acked=7) for i in (1, 2, 2)))
        rows = [stream.next(5.0) for _ in range(4)]
    reports = [row for row in rows if row["stream"] == "report"]
    decisions = [row for row in rows if row["stream"] == "decision"]
    assert [(row["flow_id"], row["fields"]) for row in reports] == [(2, {"acked": 7})] * 2
    assert [(row["flow_id"], row["cwnd_bytes"]) for row in decisions] == [(2, 10_001), (2, 10_002)]
    assert stream.dropped == 0


def test_nothing_is_looked_at_when_none_listens(served: Served, client: Client) -> None:
    writer = served.agent_loop.writer
    update = writer.update
    with subscribed(served, client, kinds=("report", "decision")):
        assert writer.update != update
    while writer.update != update:
        time.sleep(0.001)
    assert served.agent_loop.on_batch is None


def test_events_are_streamed(served: Served, client: Client) -> None:
    with client.stream(kinds=("event",), timeout_s=5.0) as stream:
        rows = iter(stream)
        while not stream.ready():  # until the subscription has arrived
            client.params["beta"] = 0.6
            time.sleep(0.001)
        served.feed(FakeClosed(2, FakeStats(2)))
        row = next(row for row in rows if row["kind"] == "flow:closed")
    assert (row["flow_id"], row["algorithm"]) == (2, "mine")


def test_stream_ends_when_nothing_comes(served: Served, client: Client) -> None:
    with client.stream(timeout_s=0.01) as stream:
        assert list(stream) == []


def test_client_that_takes_nothing_does_not_slow_the_agent(served: Served, client: Client) -> None:
    with subscribed(served, client, kinds=("report", "decision")) as stream:
        for _ in range(300):
            served.feed(*(FakeReport(1, served.handle, acked=1) for _ in range(100)))
        while served.agent_loop.counters.reports < 30_000:
            time.sleep(0.001)
        assert sum(row["stream"] == "report" for row in stream.ready()) < 30_000
        end_s = time.monotonic() + 60
        while client.status()["dropped"]["batches"] + stream.dropped == 0:
            assert time.monotonic() < end_s, "what was lost is counted"
            served.feed(FakeReport(2, served.handle, acked=1), FakeReport(1, served.handle, acked=0))
            stream.ready()
        assert client.flow(1)["state"]["n"] >= 30_000


def test_socket_is_for_its_owner_only_and_goes_with_the_agent(tmp_path: Path) -> None:
    served = Served(tmp_path)
    path = Path(served.address.removeprefix("ipc://"))
    streams = Path(stream_address(served.address).removeprefix("ipc://"))
    with managed(served.agent_loop, compile_program, ControlOptions(served.address)):
        for one in (path, streams):
            assert stat.S_IMODE(one.stat().st_mode) == 0o600
    assert not path.exists()
    assert not streams.exists()
    with pytest.raises(LoadError) as caught:
        Client(served.address)
    assert caught.value.slug == "control.no_agent"


def test_socket_that_a_killed_agent_left_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.control.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(LoadError) as caught:
        Client(f"ipc://{path}")
    assert caught.value.slug == "control.no_agent"
    assert "killed" in caught.value.why


def test_whom_the_socket_does_not_let_in_is_reported_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(self: socket.socket, address: str) -> None:
        raise PermissionError

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(LoadError) as caught:
        Client(f"ipc://{tmp_path / 'a.control.sock'}")
    assert caught.value.slug == "control.no_agent"
    assert "--control-user" in caught.value.fix


def test_socket_may_be_handed_to_another_user_before_anything_else_is_dropped(tmp_path: Path) -> None:
    served = Served(tmp_path)
    user = pwd.getpwuid(os.getuid()).pw_name
    path = Path(served.address.removeprefix("ipc://"))
    for name in (user, None):
        options = ControlOptions(served.address, user=name)
        with managed(served.agent_loop, compile_program, options, start=False) as ways:
            assert path.exists()
            ways.start()
            assert path.stat().st_uid == os.getuid()


def test_address_belongs_to_the_pin_directory(tmp_path: Path) -> None:
    one, other = (control_socket(pin_dir, tmp_path) for pin_dir in ("/sys/fs/bpf/a", "/sys/fs/bpf/b"))
    assert one != other
    assert stream_address("tcp://127.0.0.1:7000") == "tcp://127.0.0.1:7001"


def test_address_that_cannot_be_had_is_reported(tmp_path: Path) -> None:
    served = Served(tmp_path)
    for options in (
        ControlOptions("ipc:///nowhere/at/all.sock"),
        ControlOptions(served.address, user="no-such-user"),
    ):
        with pytest.raises(LoadError) as caught, managed(served.agent_loop, compile_program, options):
            pass
        assert caught.value.slug == "control.cannot_listen"


def test_agent_that_hangs_is_reported(tmp_path: Path) -> None:
    served = Served(tmp_path)
    with managed(served.agent_loop, compile_program, ControlOptions(served.address)):
        with Client(served.address, timeout_s=0.05) as client, pytest.raises(LoadError) as caught:
            client.status()
        assert caught.value.slug == "control.no_answer"


def test_tcp_asks_for_keys(serve: Callable[..., Served], tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{_free_port()}"
    served = Served(tmp_path)
    with (
        pytest.raises(UsageError) as caught,
        managed(served.agent_loop, compile_program, ControlOptions(address)),
    ):
        pass
    assert caught.value.slug == "control.no_keys"
    keys = tmp_path / "keys"
    options = ControlOptions(address, keys=keys)
    with managed(served.agent_loop, compile_program, options):
        thread = threading.Thread(target=served.agent_loop.run)
        thread.start()
        assert stat.S_IMODE((keys / "client.key_secret").stat().st_mode) == 0o600
        with Client(address, keys_dir=keys) as client:
            assert client.algorithms() == ["mine"]
        with Client(address, timeout_s=0.3) as stranger, pytest.raises(LoadError):
            stranger.status()
        with pytest.raises(UsageError) as caught:
            Client(address, keys_dir=tmp_path)
        assert caught.value.slug == "control.bad_keys"
        served.agent_loop.request_stop()
        thread.join()


def _free_port() -> int:
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def test_rubbish_on_the_socket_is_answered_and_harms_none(served: Served, client: Client) -> None:
    context = zmq.Context()
    try:
        dealer = context.socket(zmq.DEALER)
        dealer.connect(served.address)
        for text in (b"", b"{", b"[]", b'{"id": 5, "ask": {"do": "nothing"}}', b"\xff\xfe", b'{"ask": 1}'):
            dealer.send(text)
            answer = json.loads(dealer.recv())
            assert answer["error"][0]["slug"] == "control.bad_request"
            assert answer["error"][0]["why"]
        dealer.send(b'{"id": 5, "ask": {"do": "nothing"}}')
        assert json.loads(dealer.recv())["id"] == 5
        dealer.send_multipart([b"", msgspec.json.encode(Envelope(id=6, ask=ask.Status()))])
        assert json.loads(dealer.recv_multipart()[-1])["id"] == 6
    finally:
        context.destroy(linger=0)
    assert client.algorithms() == ["mine"]


def test_other_version_is_refused_with_a_reason() -> None:
    number, what = read_request(msgspec.json.encode(Envelope(version=2, id=3, ask=ask.Status())))
    assert number == 3
    assert isinstance(what, CcpError)
    assert "version is 2" in what.why


def test_error_of_our_own_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    failed: Future[Any] = Future()
    failed.set_exception(ZeroDivisionError("no"))
    answer = json.loads(answer_text(4, failed))
    assert answer["error"][0]["slug"] == "control.failed"
    assert "ZeroDivisionError" in caplog.text
