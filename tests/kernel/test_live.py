"""Everything changed while a real transfer runs: source, parameters, algorithm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path as FilePath
from typing import Any

import pytest

from broker.embedded import EmbeddedBroker
from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.base.errors import CcpError
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, AgentProcess, running_agent
from experiments.bench import flows
from experiments.netlab import LabError, Path
from telemetry.bus import Bus
from telemetry.schema import ReceiverSignal
from tests.kernel.driving import Start, wait_until

SOURCE = """
import helper
from ccp_algs import Algorithm, Param

class Edited(Algorithm):
    scale = Param(1.0, min=0.1, max=10.0)
    program = '''
    (def (Report (volatile acked 0) (total 0)) (target 144800))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.total (+ Report.total Ack.bytes_acked))
        (:= Cwnd target)
        (fallthrough))
    (when (> Micros 5000) (report) (:= Micros 0))
    '''

    def on_create(self, info):
        self.reports = 0
        self.total = 0

    def on_report(self, report):
        self.reports += 1
        self.total = report.total
        self.flow.set(target=int(self.scale * (WINDOW + helper.MORE)))
"""

BROKEN = {
    "syntax": ("def on_create(self, info):", "def on_create(self, info)", "reload.import_failed"),
    "fold": ("Ack.bytes_acked))\n        (:= Report.total", "Ack.acked))\n        (:= Report.total", "lang."),
    "on_reload": (
        "    def on_create",
        "    def on_reload(self, old):\n        raise KeyError(old.reports)\n\n    def on_create",
        "reload.cannot_take_over",
    ),
    "missing method": ("self.reports += 1", "self.count(report)", "reload.check_failed"),
}


def version(window_bytes: int, broken: str | None = None, *, helped: bool = True) -> str:
    """Source that keeps this window; with something wrong, and without a module beside it, if asked for."""
    text = SOURCE.replace("WINDOW", str(window_bytes))
    if not helped:
        text = text.replace("import helper\n", "").replace(" + helper.MORE", "")
    if broken is not None:
        wrong = text.replace(*BROKEN[broken][:2])
        assert wrong != text
        return wrong
    return text


@pytest.fixture
def start_agent(tmp_path: FilePath) -> Iterator[Callable[..., tuple[AgentProcess, Client, FilePath]]]:
    """Start an agent with the algorithm `edited` from somebody's private directory, and connect to it."""
    with ExitStack() as stack:

        def start(*arguments: str, source: str = version(144_800)) -> tuple[AgentProcess, Client, FilePath]:
            home = tmp_path / "home"
            home.mkdir()
            file = home / "edited.py"
            file.write_text(source)
            (home / "helper.py").write_text("MORE = 0\n")
            for one in (file, home / "helper.py", home):
                os.chown(one, OTHER_USER, OTHER_USER)
            home.chmod(0o700)
            agent = stack.enter_context(running_agent(str(file), *arguments))
            return agent, stack.enter_context(Client(control_socket(PIN_DIR))), file

        yield start


OTHER_USER = 12345


def own(path: Path) -> int:
    """Id of the flow that sends."""
    view = ebpf.observe(PIN_DIR)
    found: list[int] = []

    def look() -> bool:
        sending = {s.flow_id for s in view.all_stats() if s.bytes_acked > 1e6}
        found[:] = [
            info.flow_id
            for info in view.flows()
            if info.dst_addr == path.receiver.ipv4 and info.flow_id in sending
        ]
        return bool(found)

    wait_until(look)
    return found[0]


def test_20_edits_during_one_transfer_8_of_them_broken(
    path_100mbit: Path, start_transfer: Start, start_agent: Callable[..., Any]
) -> None:
    agent, client, file = start_agent("--reload")
    transfer = start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=25)
    flow_id = own(path_100mbit)
    view = ebpf.observe(PIN_DIR)
    stream = client.stream(kinds=("event",), timeout_s=10.0)
    while not stream.ready():
        client.set({"scale": 1.0})
        time.sleep(0.005)
    kinds = [*BROKEN] * 2
    good, more = 144_800, 0  # never more than the buffer of the path holds: lost packets would stall it
    for edit in range(20):
        broken = kinds.pop() if edit % 5 in (1, 3) else None
        window = 144_800 + 1448 * (edit + 1)
        before = view.stats(flow_id)
        seen = client.flow(flow_id)["state"]["reports"]
        if edit and edit % 5 == 0:  # the module beside it is edited
            window, more = good, 14_480 - more
            file.with_name("helper.py").write_text(f"MORE = {more}\n")
        else:
            file.write_text(version(window, broken))
        row = next(row for row in stream if row["kind"] in ("algorithm:reloaded", "algorithm:refused"))
        if broken is not None:
            assert row["kind"] == "algorithm:refused"
            assert row["detail"]["error"]["slug"].startswith(BROKEN[broken][2])
            assert "edited.py" in row["detail"]["error"]["where"]
        else:
            assert row["kind"] == "algorithm:reloaded"
            assert row["detail"]["programs"] == {"default": "kept"}
            assert row["detail"]["old_sha256"] != row["detail"]["new_sha256"]
            good = window
        wait_until(lambda sum_bytes=good + more: view.stats(flow_id).cwnd_bytes == sum_bytes)
        state = client.flow(flow_id)["state"]
        assert state["reports"] >= seen, "what the instance counted was carried over"
        assert view.stats(flow_id).bytes_acked > before.bytes_acked + 100_000, "the transfer never stalls"
    assert not kinds
    stats = view.stats(flow_id)
    assert stats is not None
    assert client.flow(flow_id)["state"]["total"] > 0.9 * stats.bytes_acked - 1e6, "registers were kept"
    assert stats.fallback_entries <= 1, "the fallback had it before the agent took it over, and not again"
    assert not stats.fallback
    status = client.status()
    assert status["counters"]["flows_failed"] == 0
    assert "continues unchanged" in agent.log()
    stream.close()
    client.stop()
    transfer.stop()


VECTOR = """
import numpy as np
from ccp_algs import Updates, VectorAlgorithm

VERSION = 1

class Edited(VectorAlgorithm):
    program = '''
    (def (Report (volatile acked 0)))
    (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
    (when (> Micros 5000) (report) (:= Micros 0))
    '''

    def __init__(self):
        self.row_of = {}
        self.born_in = np.zeros(0, np.uint64)

    def on_create(self, info):
        self.row_of[info.flow_id] = len(self.born_in)
        self.born_in = np.append(self.born_in, np.uint64(VERSION))

    def on_reports(self, reports, program):
        flow_ids = reports["flow_id"]
        rows = [self.row_of[flow_id] for flow_id in flow_ids.tolist()]
        segments = 100 + 10 * VERSION + self.born_in[rows]
        return Updates(flow_ids, (1448 * segments).astype(np.uint64))
"""
"""Writes into the window which version decides, and in which one the flow began."""


@contextmanager
def busy_flows(path: Path, congestion: str, count: int) -> Iterator[None]:
    """Keep connections open that all send again and again."""

    def sending() -> None:
        with suppress(LabError):  # it is ended when the block is left
            send()

    with flows.open_flows(path, congestion, count) as send:
        thread = threading.Thread(target=sending)
        thread.start()
        yield
    thread.join()


def test_vectorised_algorithm_is_reloaded_with_its_arrays(
    wire: Path, start_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "SECONDS", 60.0)
    _, client, _ = start_agent(source=VECTOR)
    view = ebpf.observe(PIN_DIR)

    def windows() -> list[int]:
        return sorted(one.cwnd_bytes // 1448 for one in view.all_stats())

    with busy_flows(wire, "ccp.edited", 3):
        wait_until(lambda: windows() == [111] * 3)
        with pytest.raises(CcpError):
            client.load(
                VECTOR.replace("VERSION = 1", "VERSION = 5").replace("row_of[flow", "row[flow"), "edited"
            )
        done = client.load(VECTOR.replace("VERSION = 1", "VERSION = 2"), "edited")
        assert (done["flows"], done["programs"]) == (3, {"default": "kept"})
        wait_until(lambda: windows() == [121] * 3)
        with busy_flows(wire, "ccp.edited", 2):
            wait_until(lambda: windows() == [121] * 3 + [122] * 2)
        assert client.status()["counters"]["flows_failed"] == 0
        assert not any(one.fallback for one in view.all_stats())


MANY = 600


def test_reloads_under_many_flows(
    wire: Path, start_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "SECONDS", 60.0)
    _, client, _ = start_agent()
    view = ebpf.observe(PIN_DIR)
    with busy_flows(wire, "ccp.edited", MANY):
        wait_until(lambda: sum(one.cwnd_bytes == 144_800 for one in view.all_stats()) == MANY)
        before = {one.flow_id: one.fallback_entries for one in view.all_stats()}
        hashes = []
        for number, broken in enumerate([None, "fold", None, "on_reload", "missing method", None, "syntax"]):
            window = 72_400 + 1448 * number
            if broken is None:
                done = client.load(version(window, helped=False), "edited")
                assert done["flows"] == MANY
                hashes.append((done["old_sha256"], done["new_sha256"]))
                good = window
            else:
                with pytest.raises(CcpError) as caught:
                    client.load(version(window, broken, helped=False), "edited")
                assert caught.value.slug.startswith(BROKEN[broken][2])
        wait_until(lambda: sum(one.cwnd_bytes == good for one in view.all_stats()) == MANY)
        after = view.all_stats()
    assert {one.flow_id: one.fallback_entries for one in after} == before
    assert not any(one.fallback for one in after)
    counters = client.status()["counters"]
    assert (counters["flows_failed"], counters["algorithm_errors"]) == (0, 0)
    rows = client.events(1000)
    reported = [row["detail"] for row in rows if row["kind"] == "algorithm:reloaded"]
    assert [(one["old_sha256"], one["new_sha256"]) for one in reported] == hashes
    assert len({new for _, new in hashes}) == len(hashes)
    assert sum(row["kind"] == "algorithm:refused" for row in rows) == 4


def test_parameter_reaches_a_running_flow(
    path_100mbit: Path, start_transfer: Start, start_agent: Callable[..., Any]
) -> None:
    _, client, _ = start_agent()
    start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=20)
    flow_id = own(path_100mbit)
    view = ebpf.observe(PIN_DIR)
    client.params["scale"] = 2
    wait_until(lambda: view.stats(flow_id).cwnd_bytes == 289_600)
    command = [sys.executable, "-c", "from ccplane.agent.entry import main; main()"]
    pinned = ["--pin-dir", PIN_DIR]
    done = subprocess.run(
        [*command, "set", "edited.scale=0.5", "--flow", str(flow_id), *pinned],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wait_until(lambda: view.stats(flow_id).cwnd_bytes == 72_400)
    done = subprocess.run([*command, "set", "scale=99", *pinned], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "param.out_of_range" in done.stderr
    tail = subprocess.run(
        [*command, "tail", "report", "decision", "--flow", str(flow_id), "-n", "4", "--json", *pinned],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    rows = [json.loads(line) for line in tail.stdout.splitlines()]
    assert {row["flow_id"] for row in rows} == {flow_id}
    assert all(row["cwnd_bytes"] == 72_400 for row in rows if row["stream"] == "report")


def test_algorithms_are_switched_under_load_and_new_ones_loaded(
    path_100mbit: Path, start_transfer: Start, start_agent: Callable[..., Any], tmp_path: FilePath
) -> None:
    _, client, _ = start_agent()
    start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=20)
    flow_id = own(path_100mbit)
    view = ebpf.observe(PIN_DIR)
    other = tmp_path / "other.py"
    (tmp_path / "helper.py").write_text("MORE = 0\n")
    other.write_text(version(434_400).replace("class Edited", "class Other"))
    done = client.load(other, "other")
    assert done["algorithm"] == "other"
    for _ in range(3):
        assert client.switch("other", flow=flow_id) == 1
        wait_until(lambda: view.stats(flow_id).cwnd_bytes == 434_400)
        assert client.switch("edited", before="other") == 1
        wait_until(lambda: view.stats(flow_id).cwnd_bytes == 144_800)
    assert client.switch("other") >= 1
    assert set(client.flows()["algorithm"]) == {"other"}
    stats = view.stats(flow_id)
    assert stats is not None
    assert stats.fallback_entries <= 1
    with pytest.raises(CcpError):
        client.switch("nobody")
    start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp.other", duration_s=1).wait()


def test_telemetry_changes_the_window_of_the_flow_that_it_is_about(
    path_100mbit: Path, start_transfer: Start, tmp_path: FilePath
) -> None:
    file = tmp_path / "edited.py"
    (tmp_path / "helper.py").write_text("MORE = 0\n")
    file.write_text(
        version(144_800)
        + """
    def on_telemetry(self, sample):
        self.scale = 2.0

    def on_telemetry_lost(self, kind, sender):
        self.scale = 0.5
"""
    )
    with EmbeddedBroker() as broker, ExitStack() as stack:
        url = f"mqtt://{broker.options.host}:{broker.options.port}"
        stack.enter_context(running_agent(str(file), "--broker", url))
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp", duration_s=20)
        flow_id = own(path_100mbit)
        client = stack.enter_context(Client(control_socket(PIN_DIR)))
        bus = Bus(broker.options, sender="receiver-1", on_sample=lambda sample: None, kinds=())
        bus.start()
        stack.callback(bus.stop)
        view = ebpf.observe(PIN_DIR)

        def doubled() -> bool:
            peer, address = path_100mbit.sender.ipv4, path_100mbit.receiver.ipv4
            bus.publish(ReceiverSignal(peer=peer, address=address, ce_marks=1), ttl_ms=500)
            time.sleep(0.05)
            return bool(view.stats(flow_id).cwnd_bytes == 289_600)

        wait_until(doubled)
        assert client.flow(flow_id)["telemetry"][0]["sender"] == "receiver-1"
        wait_until(lambda: view.stats(flow_id).cwnd_bytes == 72_400)
        assert client.flow(flow_id)["telemetry"] == []
        assert client.subscribe("param_change")[-1] == "param_change"
