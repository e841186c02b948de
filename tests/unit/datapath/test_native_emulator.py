"""The compiled emulator without devices: its input, answers and end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ccplane.base import _native
from ccplane.base.errors import CcpError
from experiments.netlab.linkstats import EmulatorStats, LinkStats
from experiments.netlab.network_spec import emulator_spec
from experiments.netlab.routes import graph_of
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    DropTail,
    DualPI2,
    FqCoDel,
    GilbertElliott,
    Pattern,
    Pie,
    Red,
    TokenBucket,
)
from experiments.netlab.topologies import point_to_point

TIMEOUT_S = 30
pytestmark = pytest.mark.kernel_part


def network(direction: Direction = Direction(), **recording: Any) -> dict[str, Any]:  # noqa: B008 -- frozen
    """Describe a link whose hosts have no devices."""
    spec = emulator_spec(graph_of(point_to_point(direction)), seed=1)
    for node in spec["nodes"]:
        node["tun"] = None
    return spec | {"sample_interval_us": 1000, "samples_path": None, "pcap": None} | recording


class Running:
    """An emulator on a thread, and the peer of its control socket."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.own, self._other = socket.socketpair()
        self.own.settimeout(TIMEOUT_S)
        self._lines = self.own.makefile("r")
        self.raised: CcpError | None = None
        self.thread = threading.Thread(target=self._run, args=(msgspec.json.encode(spec),))
        self.thread.start()
        assert self.answer() == {"ready": True}

    def _run(self, spec_json: bytes) -> None:
        try:
            _native.emulate(spec_json, [], self._other.fileno())
        except CcpError as error:
            self.raised = error
        finally:
            self._other.close()

    def answer(self) -> Any:
        return json.loads(self._lines.readline())

    def ask(self, **request: Any) -> Any:
        self.own.sendall(json.dumps(request).encode() + b"\n")
        return self.answer()

    def join(self) -> CcpError | None:
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()
        return self.raised


@contextmanager
def running(spec: dict[str, Any]) -> Iterator[Running]:
    emulator = Running(spec)
    try:
        yield emulator
    finally:
        emulator._lines.close()
        emulator.own.close()
        emulator.join()


def refused(spec: bytes, tun_fds: list[int] | None = None) -> CcpError:
    near, far = socket.socketpair()
    with near, far, pytest.raises(CcpError) as caught:
        _native.emulate(spec, tun_fds or [], far.fileno())
    return caught.value


@pytest.mark.parametrize(
    "direction",
    [
        Direction(),
        Direction(rate_bytes_per_s=1e6, delay_us=1000, jitter_us=10, buffer=Buffer(bytes=5000)),
        Direction(rate_bytes_per_s=1e6, buffer=Buffer(packets=9), duplicate_ratio=0.1, corrupt_ratio=0.2),
        Direction(loss=Bernoulli(0.5), queue=DropTail(ce_threshold_us=5, ce_threshold_bytes=1500)),
        Direction(loss=GilbertElliott(0.1, 0.2), queue=Red(min_bytes=1000, max_bytes=2000, ecn=False)),
        Direction(loss=Pattern((1, 5), repeat_every_pkts=9), queue=CoDel(target_us=1)),
        Direction(queue=Pie(target_us=1, update_us=2, burst_us=3, ecn=False, mark_max_ratio=0.5)),
        Direction(queue=FqCoDel(target_us=1, interval_us=2, quantum_bytes=300, flows=4, ecn=False)),
        Direction(queue=DualPI2(1, 30, coupling=1.5, step_us=2, classic_share=0.5, any_ect=True)),
        Direction(token_bucket=TokenBucket(1e6, 3000, shaper=True, refill_us=10_000)),
    ],
)
def test_everything_that_a_direction_can_be_is_read(direction: Direction) -> None:
    with running(network(direction)) as emulator:
        plain = msgspec.to_builtins(direction)
        assert emulator.ask(id=1, do="set_link", link="link<", direction=plain) == {"id": 1, "ok": True}


def test_a_trace_is_read(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("0\n5\n5\n20\n")
    with running(network(Direction(trace=str(trace)))) as emulator:
        assert emulator.ask(id=1, do="stop") == {"id": 1, "ok": True}


def test_it_answers_what_it_is_asked() -> None:
    with running(network()) as emulator:
        stats = emulator.ask(id=7, do="stats")
        assert stats["id"] == 7
        links = msgspec.convert(stats["ok"]["links"], dict[str, LinkStats])
        assert links.keys() == {"link>", "link<"}
        assert links["link>"].arrived_pkts == links["link>"].delivered_pkts == 0
        of_the_lab = {"untaken_pkts": 0, "cpu_s": 0.1}  # which it counts itself
        assert msgspec.convert(stats["ok"] | of_the_lab, EmulatorStats).unwritable_pkts == 0
        routes = [[-1, 0], [1, -1]]
        assert emulator.ask(id=8, do="set_routes", routes=routes) == {"id": 8, "ok": True}
        assert emulator.ask(id=9, do="stop") == {"id": 9, "ok": True}
        assert emulator.join() is None


@pytest.mark.parametrize(
    ("request_", "wrong"),
    [
        ({"do": "set_link", "link": "lonk>", "direction": {}}, "emulator.no_link"),
        ({"do": "set_link", "link": "link>", "direction": {"corrupt_ratio": 2.0}}, "emulator.bad_spec"),
        ({"do": "set_link", "link": "link>", "direction": {"colour": 1}}, "unknown field `colour`"),
        ({"do": "set_routes", "routes": [[0]]}, "emulator.bad_spec"),
        ({"do": "dance"}, "unknown variant `dance`"),
        ({"do": "stats", "links": []}, "unknown field `links`"),
    ],
)
def test_what_it_cannot_do_is_said_and_it_goes_on(request_: dict[str, Any], wrong: str) -> None:
    with running(network()) as emulator:
        answer = emulator.ask(id=3, **request_)
        assert answer["id"] == 3
        assert wrong in answer["error"]
        assert "ok" in emulator.ask(id=4, do="stats")


def test_it_ends_when_none_holds_the_other_end() -> None:
    with running(network()) as emulator:
        emulator.own.shutdown(socket.SHUT_RDWR)
        assert emulator.join() is None


def test_a_file_that_cannot_be_written_is_an_error() -> None:
    for recording in ({"samples_path": "/nowhere/samples.csv"}, {"pcap": {"link>": "/nowhere/link.pcapng"}}):
        error = refused(msgspec.json.encode(network(**recording)))
        assert error.slug == "emulator.cannot_write"
        assert error.where.startswith("/nowhere/")
    with running(network(samples_path="/dev/full")) as emulator:
        emulator.ask(id=1, do="stop")
        error_at_end = emulator.join()
        assert error_at_end is not None
        assert error_at_end.slug == "emulator.cannot_write"


def test_what_is_no_network_is_refused() -> None:
    assert refused(b"{}").slug == "emulator.bad_spec"
    bad = network()
    bad["links"][0]["direction"]["delay_us"] = -5
    error = refused(msgspec.json.encode(bad))
    assert error.slug == "emulator.bad_spec"
    assert "-5" in error.why
    bad = network()
    bad["links"][1]["name"] = "link>"
    assert refused(msgspec.json.encode(bad)).where == "links[1] (link>)"
    bad = network()
    bad["nodes"][0]["tun"] = 0
    assert "no TUN device 0" in refused(msgspec.json.encode(bad)).message


def test_a_file_that_is_no_tun_device_is_refused(tmp_path: Path) -> None:
    bad = network()
    bad["nodes"][0]["tun"] = 0
    with (tmp_path / "file").open("w") as file:
        error = refused(msgspec.json.encode(bad), [file.fileno()])
    assert error.slug == "emulator.bad_tun"
    assert error.where == "node sender"


def test_a_signal_reaches_its_python_handler() -> None:
    code = (
        "import sys\n"
        "from ccplane.base import _native\n"
        "try: _native.emulate(sys.stdin.buffer.read(), [], int(sys.argv[1]))\n"
        "except KeyboardInterrupt: sys.exit(7)"
    )
    own, other = socket.socketpair()
    with own, other:
        number = other.fileno()
        command = [sys.executable, "-c", code, str(number)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[number], cwd=Path(__file__).parents[3]
        ) as process:
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(network()))
            process.stdin.close()
            own.settimeout(TIMEOUT_S)
            assert own.recv(100) == b'{"ready":true}\n'
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 7
