"""Upgrades under load: another build, or another room for flows, takes over what an earlier one steers."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as FilePath

import pytest

from ccplane.base import _native
from ccplane.base.errors import CcpError
from experiments import agent_process
from experiments.agent_process import AgentProcess, running_agent
from experiments.bench.bpf_objects import programs
from experiments.netlab import Path, congestion_of
from experiments.netlab.sockets import free_port
from experiments.soak.plant import looks_like_another_build
from tests.kernel import shipped
from tests.kernel.driving import CONST, EVERY_ACK, PATIENT, PIN_DIR, Driver, ccp, loaded, wait_until
from tests.kernel.upgrading import Server


@pytest.fixture
def server(wire: Path) -> Iterator[Server]:
    """A server that the datapath of the tests has, without an agent; it closes when that is gone."""
    with loaded() as datapath:
        datapath.close()
        made = Server(wire.sender)
        try:
            yield made
        finally:
            made.close()


KINDS = ["programs", "layout", "max_flows"]
"""What is different in what comes."""


def replaced(kind: str) -> _native.EbpfDatapath:
    """Load what replaces the tests' datapath."""
    if kind != "max_flows":
        looks_like_another_build(PIN_DIR, layout=kind == "layout")
    return _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=2048 if kind == "max_flows" else 1024)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_there_before_an_upgrade_is_steered_after_it(server: Server, wire: Path, kind: str) -> None:
    there = [server.accept(wire.receiver, server.chose), server.accept(wire.receiver, server.left)]
    there.append(server.connect(wire.receiver))
    with replaced(kind) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(CONST)))
        for info in datapath.flows():
            datapath.update(info.flow_id, program=driver.program)
        came = [server.accept(wire.receiver, server.chose), server.accept(wire.receiver, server.left)]
        came += [server.connect(wire.receiver), server.connect(wire.receiver, server.unused)]

        def steered() -> set[int]:
            flows = {info.flow_id: info for info in datapath.flows()}
            with_program = [stats.flow_id for stats in datapath.all_stats() if not stats.fallback]
            return {flows[i].src_port for i in with_program if i in flows} | {
                flows[i].dst_port for i in with_program if i in flows
            }

        with server.talking():
            driver.until(lambda: steered() >= {*there, *came})
        assert server.default() == "ccp"
        assert {congestion_of(own) for _, own in server.live} == {"ccp"}


def other(kind: str, **options: int) -> _native.EbpfDatapath:
    """Load what takes over from a datapath that an agent of these tests drives."""
    max_flows = 2048 if kind == "max_flows" else 1024
    return _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=max_flows, take_over=True, **options)


@pytest.mark.parametrize("kind", ["nothing", "programs"])
def test_flows_whose_layout_stays_never_have_the_fallback(wire: Path, kind: str) -> None:
    with loaded() as first, ThreadPoolExecutor() as pool:
        server, others = Server(wire.sender), programs()
        driver = Driver(first, first.install(_native.compile(EVERY_ACK)))
        folds = programs() - others
        driver.until(
            pool.submit(lambda: [server.accept(wire.receiver, server.chose) for _ in range(20)]).done
        )
        with server.talking():
            driver.until(lambda: len({report.flow_id for report in driver.seen.reports}) >= 20)
            before = {stats.flow_id: stats for stats in first.all_stats() if not stats.fallback}
            if kind == "programs":
                looks_like_another_build(PIN_DIR, layout=False)

            def take_over() -> tuple[_native.EbpfDatapath, int]:
                second = other(kind, **PATIENT)
                handle = second.install(_native.compile(EVERY_ACK, name="new"))
                second.adopt()
                return second, handle

            coming = pool.submit(take_over)
            driver.until(lambda: first.hand_over()[0] == "handed")
            second, handle = coming.result(timeout=10)
            with second:
                driver = Driver(second, handle)
                for info in second.flows():
                    assert second.update(info.flow_id, program=handle)
                driver.until(lambda: {report.flow_id for report in driver.seen.reports} >= before.keys())
                after = {stats.flow_id: stats for stats in second.all_stats()}
                assert before.keys() <= after.keys(), "each has its slot as before"
                assert {after[i].fallback_entries - one.fallback_entries for i, one in before.items()} == {0}
                assert {after[i].program for i in before} == {handle}
                assert not any(after[i].fallback for i in before)
                assert not driver.seen.closed
                assert folds
                driver.until(lambda: not folds & programs())  # flows ran them until they got the new one
        server.close()


def test_one_that_cannot_load_leaves_the_flows_to_who_has_them() -> None:
    with loaded() as first:
        looks_like_another_build(PIN_DIR, layout=True)
        with pytest.raises(CcpError, match=r"load\.option"):
            other("layout", ring_bytes=5000)
        with pytest.raises(CcpError, match=r"load\.not_handed_over"):
            other("layout")  # nobody drives the first one here, to see that it is to end
        assert first.hand_over() == ("serves", 0)
        assert first.registered() == ["ccp"]


def steered_by() -> list[str]:
    """Return what steers each flow of the agent that runs."""
    return [flow["steered_by"] for flow in json.loads(ccp("flows", "--json"))["flows"]]


def test_an_agent_hands_its_flows_over_to_the_next(wire: Path) -> None:
    with running_agent("reno") as old:
        server = Server(wire.sender)
        for _ in range(20):
            server.accept(wire.receiver, server.chose)
        with server.talking():
            # One that cannot start leaves them where they are.
            for arguments in (["no_such_algorithm", "--take-over"], ["cubic"]):
                with pytest.raises(CcpError, match=r"load\.agent"):
                    AgentProcess(arguments)
            assert set(steered_by()) == {"reno/default"}
            new = AgentProcess(["cubic", "--take-over"])
            try:
                assert "another agent took the flows over" in old.stop()
                wait_until(lambda: steered_by() == ["cubic/default"] * 20)
            finally:
                new.stop()
        server.close()


def test_unload_leaves_nothing_that_makes_sockets_of_own(server: Server, wire: Path) -> None:
    server.accept(wire.receiver, server.chose)
    server.connect(wire.receiver)
    instead = FilePath("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    removed, moved, left = _native.EbpfDatapath.unload(PIN_DIR)
    assert "congestion control ccp" in removed
    assert any(line.startswith("default of") and line.endswith(f"ccp, now {instead}") for line in moved), (
        moved
    )
    assert server.default() == instead
    assert {congestion_of(sock) for sock in (server.chose, *(own for _, own in server.live))} == {instead}
    assert len(left) == 1, left
    assert left[0].startswith("1 listeners of"), "the one that made no choice follows the default"
    server.accept(wire.receiver, server.chose)
    server.accept(wire.receiver, server.left)
    server.connect(wire.receiver, server.unused)  # was nowhere to be found: it goes when it connects
    server.talk()
    assert {congestion_of(own) for _, own in server.live} == {instead}


def test_namespaces_whose_programs_are_not_replaced_are_counted() -> None:
    place = FilePath(agent_process.PIN_DIR)
    _native.EbpfDatapath.unload(str(place))
    place.mkdir(mode=0o700)
    os.chown(place, shipped.UID, shipped.UID)
    enter = [*shipped.run_dir(), *shipped.rights()]
    port = free_port()
    with running_agent("reno", "--control", "none", enter=enter) as old:
        looks_like_another_build(str(place), layout=False)
        new = AgentProcess(
            ["reno", "--control", "none", "--take-over", "--metrics", str(port)],
            enter=[*shipped.run_dir(), *shipped.rights()],
        )
        try:
            assert "another agent took the flows over" in old.stop()
            assert "not upgraded, see the log" in new.greeting
            assert "WARNING not upgraded: network namespaces of" in new.log()
            assert "start the agent with --take-over as root" in new.log()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                assert re.search(r"^ccplane_not_upgraded [1-9]", page.read().decode(), re.MULTILINE)
        finally:
            new.stop()
