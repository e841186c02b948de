"""The agent's end of CCP's Unix sockets, against a fake datapath."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from ccp_algs import registry
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.changes import Which
from ccplane.agent.description import Description, assembled, plan
from ccplane.base.errors import CcpError, LangError, LoadError, ProgramError, UsageError
from ccplane.datapath.ccp_unix.datapath import MAX_RATE_BYTES_PER_S, CcpUnixDatapath
from ccplane.datapath.ccp_unix.inherited import UNKNOWN_MSS_BYTES
from ccplane.datapath.ccp_unix.ledger import Ledger
from ccplane.datapath.ccp_unix.programs import CCPLANE, LIBCCP
from ccplane.datapath.ebpf import compile_program
from ccplane.datapath.protocol import CLOSED, CREATED, FALLBACK_FAILED, FALLBACK_PROGRAM, REPORT, STAMP_SHIFT
from ccplane.datapath.wire import (
    CWND,
    IMPLICIT,
    RATE,
    ChangeProgram,
    Create,
    Field,
    Install,
    Measure,
    Message,
    Ready,
    Update,
    messages,
)
from tests.waiting import Clock

TEXT: Final = """(def (Report (volatile acked 0)) (step 5) (limit +infinity))
(when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))"""
FALLBACK_UID: Final = 1
POLL_MS: Final = 2000


class Peer:
    def __init__(self, agent: Path, own: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(own))
        self._socket.settimeout(2)
        self._agent = str(agent)

    def send(self, *said: Message) -> None:
        self._socket.sendto(b"".join(message.to_bytes() for message in said), self._agent)

    def create(self, flow: int, algorithm: str = "") -> None:
        ends = (0x0100000A, socket.htons(40_000), 0x0200000A, socket.htons(5001))
        self.send(Create(flow, 14_480, 1448, *ends, algorithm))

    def received(self) -> Message:
        (message,) = messages(self._socket.recv(65_536))
        return message

    def all_received(self) -> list[Message]:
        self._socket.setblocking(False)
        received: list[Message] = []
        try:
            while True:
                received.append(self.received())
        except BlockingIOError:
            self._socket.settimeout(2)
            return received

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def datapath(tmp_path: Path, clock: Clock) -> Iterator[CcpUnixDatapath]:
    with CcpUnixDatapath(tmp_path / "agent", clock=clock) as open_one:
        yield open_one


@pytest.fixture
def peer(datapath: CcpUnixDatapath, tmp_path: Path) -> Iterator[Peer]:
    joined = Peer(datapath.path, tmp_path / "peer")
    yield joined
    joined.close()


def compiled(text: str = TEXT, name: str = "default") -> Any:
    return compile_program(text, name)


def flow_of(datapath: CcpUnixDatapath, peer: Peer, number: int = 3, algorithm: str = "") -> Any:
    """A new flow, after all messages have been received."""
    peer.create(number, algorithm)
    (created,) = datapath.poll(POLL_MS).events()
    peer.all_received()
    return created.info  # type: ignore[union-attr]


def measure(datapath: CcpUnixDatapath, number: int, handle: int, own: list[int], **head: int) -> Measure:
    """A report, including the registers of the agent."""
    installed = datapath._table.get(handle)
    assert installed is not None
    values = own + [0] * (installed.sent.n_reports - len(own))
    for name, place in installed.sent.head:
        values[place] = head.get(name, values[place])
    return Measure(number, installed.uid, values)


def test_a_datapath_gets_the_fallback_and_then_the_programs(datapath: CcpUnixDatapath, peer: Peer) -> None:
    datapath.install(compiled())
    peer.send(Ready(7))
    datapath.poll(POLL_MS)
    first, second = peer.all_received()
    assert isinstance(first, Install)
    assert isinstance(second, Install)
    assert (first.program, second.program) == (FALLBACK_UID, 2)
    datapath.install(compiled(TEXT.replace("5", "6")))
    assert peer.received().program == 3  # type: ignore[union-attr]


def test_a_flow_has_addresses_and_the_algorithm_that_it_asks_for(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    info = flow_of(datapath, peer, algorithm="cubic")
    assert (info.src_addr, info.src_port, info.dst_addr, info.dst_port) == (
        "10.0.0.1",
        40_000,
        "10.0.0.2",
        5001,
    )
    assert (info.cc_name, info.mss_bytes, info.init_cwnd_bytes) == ("ccp.cubic", 1448, 14_480)
    assert flow_of(datapath, peer, 4).cc_name == "ccp"
    assert len(datapath.flows()) == 2


def test_a_program_begins_with_what_messages_carry_and_programs_cannot(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    info = flow_of(datapath, peer)
    handle = datapath.install(compiled())
    peer.received()
    assert datapath.update(info.flow_id, 20_000, 3_000_000, handle | 9 << STAMP_SHIFT, {"step": 8})
    given = peer.received()
    assert isinstance(given, ChangeProgram)
    assert given.flow == 3
    assert {Field(0, 0, 8), Field(0, 1, 2**64 - 1), Field(IMPLICIT, CWND, 20_000)} <= set(given.fields)
    assert Field(IMPLICIT, RATE, 3_000_000) in given.fields
    assert len({field[:2] for field in given.fields}) == len(given.fields)


def test_a_report_has_registers_window_and_stamp(datapath: CcpUnixDatapath, peer: Peer) -> None:
    info = flow_of(datapath, peer)
    handle = datapath.install(compiled())
    datapath.update(info.flow_id, program=handle | 9 << STAMP_SHIFT)
    head = {
        "stamp": 9,
        "cwnd_bytes": 20_000,
        "lost_pkts": 1,
        "rtt_us": 8000,
        "timeouts": 1,
    }
    peer.send(measure(datapath, 3, handle, [1448], **head))
    batch = datapath.poll(POLL_MS)
    (report,) = batch
    assert report.EVENT_KIND == REPORT
    assert (report.acked, report.as_dict()) == (1448, {"acked": 1448})  # type: ignore[attr-defined]
    assert (report.program_handle, report.program) == (handle | 9 << STAMP_SHIFT, "default")
    assert (report.cwnd_bytes, report.timeout, report.now_us) == (20_000, True, 100_000_000)
    with pytest.raises(AttributeError, match="does not report `nothing`; it reports acked"):
        report.nothing  # type: ignore[attr-defined] # noqa: B018
    ((of, rows),) = batch.arrays()
    assert (of, rows["acked"].tolist(), rows["cwnd_bytes"].tolist(), rows["flags"].tolist()) == (
        handle,
        [1448],
        [20_000],
        [1],
    )
    stats = datapath.stats(info.flow_id)
    assert stats is not None
    assert (stats.bytes_acked, stats.lost_pkts, stats.srtt_us, stats.fallback) == (1448, 1, 8000, False)


def test_a_flow_closes_when_a_report_is_empty_and_when_its_datapath_ends(
    datapath: CcpUnixDatapath, peer: Peer, clock: Clock
) -> None:
    first, second = flow_of(datapath, peer, 3), flow_of(datapath, peer, 4)
    peer.send(Measure(3, 0, []))
    (closed,) = datapath.poll(POLL_MS).events()
    assert (closed.EVENT_KIND, closed.flow_id) == (CLOSED, first.flow_id)  # type: ignore[union-attr]
    assert not datapath.update(first.flow_id, 20_000)
    peer.close()
    clock.now_s += 1
    (closed,) = datapath.poll(0).events()
    assert closed.flow_id == second.flow_id  # type: ignore[union-attr]
    assert (datapath.flows(), datapath.counters()["datapaths"]) == ([], 0)


def test_the_lower_half_of_a_flows_number_is_a_slot_of_which_few_are_needed(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    """Vectorised algorithms index arrays with it."""
    ids = [flow_of(datapath, peer, number).flow_id for number in (3, 4, 5)]
    for number in (3, 4):
        peer.send(Measure(number, 0, []))
    assert len(datapath.poll(POLL_MS).events()) == 2
    ids += [flow_of(datapath, peer, number).flow_id for number in (6, 7, 8)]
    assert [one & 0xFFFF_FFFF for one in ids] == [0, 1, 2, 0, 1, 3]
    assert len(set(ids)) == len(ids)


def test_a_datapath_that_is_ready_again_has_none_of_its_flows(datapath: CcpUnixDatapath, peer: Peer) -> None:
    before = flow_of(datapath, peer)
    peer.send(Ready(1))
    peer.create(3)
    closed, created = datapath.poll(POLL_MS).events()
    assert (closed.flow_id, created.EVENT_KIND) == (before.flow_id, CREATED)  # type: ignore[union-attr]
    assert created.info.flow_id != before.flow_id  # type: ignore[union-attr]


def test_the_fallback_has_flows_whose_algorithm_raised_and_all_at_the_end(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    info = flow_of(datapath, peer)
    handle = datapath.install(compiled())
    datapath.update(info.flow_id, program=handle)
    datapath.update(info.flow_id, program=FALLBACK_FAILED)
    stats = datapath.stats(info.flow_id)
    assert stats is not None
    assert (stats.fallback, stats.fallback_cause, stats.fallback_entries) == (True, "failed", 1)
    assert [one.program for one in peer.all_received()[1:]] == [2, FALLBACK_UID]  # type: ignore[union-attr]
    peer.send(measure(datapath, 3, FALLBACK_PROGRAM, [], cwnd_bytes=30_000))
    assert len(datapath.poll(POLL_MS)) == 0
    assert datapath.stats(info.flow_id).cwnd_bytes == 30_000  # type: ignore[union-attr]
    datapath.update(info.flow_id, program=handle)
    datapath.close()
    assert [one.program for one in peer.all_received()] == [2, FALLBACK_UID]  # type: ignore[union-attr]


def test_a_rate_of_0_ends_pacing_and_is_nothing_where_none_was_set(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    info = flow_of(datapath, peer)
    datapath.update(info.flow_id, rate_bytes_per_s=0)
    datapath.update(info.flow_id, rate_bytes_per_s=1 << 35)
    datapath.update(info.flow_id, rate_bytes_per_s=0)
    limited = Update(3, [Field(IMPLICIT, RATE, MAX_RATE_BYTES_PER_S)])
    assert peer.all_received() == [limited, limited]


def test_many_flows_are_written_at_once(datapath: CcpUnixDatapath, peer: Peer) -> None:
    flows = [flow_of(datapath, peer, number).flow_id for number in (3, 4)]
    handle = datapath.install(compiled())
    datapath.update(flows[0], program=handle)
    peer.all_received()
    columns = [np.array(column, np.uint64) for column in ([*flows, 99], [20_000, 0, 1], [0, 5, 1])]
    assert datapath.update_many(*columns) == 2  # type: ignore[arg-type]
    assert peer.all_received() == [
        Update(3, [Field(IMPLICIT, CWND, 20_000)]),
        Update(4, [Field(IMPLICIT, RATE, 5)]),
    ]
    registers = {"step": np.array([1, 2, 3], np.uint64)}
    assert datapath.update_many(*columns, registers) == 1  # type: ignore[arg-type]


def test_what_such_a_datapath_does_not_measure_is_refused_by_name_before_a_flow_is_touched(
    datapath: CcpUnixDatapath,
) -> None:
    text = "(def (Report (age 0)))\n(when true (:= Report.age Int.age_us) (report))"
    with pytest.raises(LangError) as caught:
        datapath.install(compile_program(text, "default", "mine.py", 10))
    assert (caught.value.slug, "mine.py:11" in caught.value.where) == ("lang.limit", True)
    assert "`Int.age_us`" in caught.value.message


def test_programs_that_are_too_long_for_libccp_fit_where_ccplane_reads_them(tmp_path: Path) -> None:
    body = "".join(f"(:= Report.a (+ (* Report.a {n}) Ack.bytes_acked))" for n in range(2, 150))
    program = compiled(f"(def (Report (a 0))) (when true {body} (report))")
    with CcpUnixDatapath(tmp_path / "one") as libccp, pytest.raises(LangError, match="room for 255"):
        libccp.install(program)
    with CcpUnixDatapath(tmp_path / "other", CCPLANE) as mine:
        assert mine.install(program) == 1


@pytest.mark.parametrize("algorithm", ["aimd", "const", "copa", "dctcp", "reno"])
def test_libccp_has_room_for_an_algorithm(datapath: CcpUnixDatapath, algorithm: str) -> None:
    assert datapath.install(compiled(str(registry.get(algorithm).program))) == 1


def test_a_program_that_adds_up_what_is_acknowledged_itself_reports_the_agent_so(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    info = flow_of(datapath, peer)
    twice = TEXT.replace("(report))", "(:= Report.acked (+ Report.acked 1)) (report))")
    for text, acked in ((TEXT, 2896), (twice, 10_000)):
        handle = datapath.install(compiled(text))
        datapath.update(info.flow_id, program=handle)
        before = datapath.stats(info.flow_id)
        peer.send(measure(datapath, 3, handle, [2896], **({} if text == TEXT else {"acked_bytes": 10_000})))
        datapath.poll(POLL_MS)
        after = datapath.stats(info.flow_id)
        assert before is not None
        assert after is not None
        assert after.bytes_acked - before.bytes_acked == acked


def test_a_full_table_is_reported_of_and_a_place_that_is_free_is_used_again(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    flow_of(datapath, peer)
    texts = [TEXT.replace("5", str(n)) for n in range(LIBCCP.programs)]
    handles = [datapath.install(compiled(text)) for text in texts[:-1]]
    assert len(peer.all_received()) == len(handles) == 8
    with pytest.raises(ProgramError, match="can have 8 programs") as caught:
        datapath.install(compiled(texts[-1]))
    assert caught.value.slug == "program.no_room"
    datapath.uninstall(handles[2])
    datapath.install(compiled(texts[-1]))
    # All again in the same order; the first one clears the table of libccp.
    assert [one.program for one in peer.all_received()] == [1, 2, 3, 10, 5, 6, 7, 8, 9]  # type: ignore[union-attr]


def test_extensions_and_their_updates_are_refused(datapath: CcpUnixDatapath, peer: Peer) -> None:
    info = flow_of(datapath, peer)
    with pytest.raises(LoadError, match="the extension `rtcp` is not available"):
        datapath.extend("rtcp")
    with pytest.raises(CcpError) as caught:
        datapath.update(info.flow_id, messages={"rtcp": b"x"})
    assert caught.value.slug == "update.extension"


def test_errors_of_updates_say_what_is_wrong(datapath: CcpUnixDatapath, peer: Peer) -> None:
    info = flow_of(datapath, peer)
    slugs = []
    for options in ({"program": 9}, {"registers": {"step": 1}}):
        with pytest.raises(CcpError) as caught:
            datapath.update(info.flow_id, **options)  # type: ignore[arg-type]
        slugs.append(caught.value.slug)
    datapath.update(info.flow_id, program=datapath.install(compiled()))
    with pytest.raises(CcpError) as caught:
        datapath.update(info.flow_id, registers={"steps": 1})
    assert [*slugs, caught.value.slug] == ["program.unknown", "register.no_program", "register.unknown"]
    assert "step" in caught.value.fix


def test_bytes_that_are_no_message_and_reports_of_none_change_nothing(
    datapath: CcpUnixDatapath, peer: Peer
) -> None:
    info = flow_of(datapath, peer)
    handle = datapath.install(compiled())
    peer._socket.sendto(b"\x09\x00\x08\x00\x00\x00\x00\x00", str(datapath.path))
    peer.send(Measure(99, handle + 1, [1]), Measure(3, 77, [1]), Measure(3, handle + 1, [1]))
    assert len(datapath.poll(POLL_MS)) == 0
    assert (len(datapath.flows()), datapath.counters()["messages_refused"]) == (1, 2)
    assert info.flow_id in {flow.flow_id for flow in datapath.flows()}


def test_a_socket_that_another_agent_has_is_left_to_it(datapath: CcpUnixDatapath) -> None:
    with pytest.raises(UsageError) as caught:
        CcpUnixDatapath(datapath.path)
    assert (caught.value.slug, caught.value.why) == ("wire.no_socket", "another agent uses it")
    datapath.close()
    CcpUnixDatapath(datapath.path).close()


def test_a_call_from_another_thread_ends_the_wait(datapath: CcpUnixDatapath) -> None:
    datapath.wake()
    assert len(datapath.poll(60_000)) == 0
    datapath.close()
    datapath.wake()


def test_a_loop_runs_on_it_as_on_any_other(datapath: CcpUnixDatapath, peer: Peer) -> None:
    # Classes of their own: a parameter that is set stays set.
    own = [type(one.__name__, (one,), {}) for one in (registry.get("reno"), registry.get("aimd"))]
    ready = plan(Description(own, rules=["dport=5001 -> aimd"]))
    agent_loop: AgentLoop = assembled(ready, datapath)
    peer.create(3)
    peer.create(4, "reno")
    agent_loop.turn(POLL_MS)
    algorithms = [live.host.name for live in agent_loop.flows.values()]
    assert algorithms == ["aimd", "reno"]
    given = [one for one in peer.all_received() if isinstance(one, ChangeProgram)]
    assert [(one.flow, one.program) for one in given] == [(3, 3), (4, 2)]
    (aimd,) = (live.flow for live in agent_loop.flows.values() if live.host.name == "aimd")
    fields = [0] * len(agent_loop.hosts["aimd"].programs.all()[0].program.report_fields)
    stamp = aimd.handle >> STAMP_SHIFT
    peer.send(measure(datapath, 3, 2, fields, stamp=stamp, cwnd_bytes=14_480, rtt_us=9000))
    agent_loop.turn(POLL_MS)
    assert (agent_loop.counters.reports, agent_loop.counters.algorithm_errors) == (1, 0)
    agent_loop.changes.set_params({"beta": 0.6}, Which())
    peer.send(Measure(3, 0, []))
    agent_loop.turn(POLL_MS)
    assert agent_loop.counters.flows_closed == 1


def test_flows_of_an_agent_before_are_asked_and_those_that_answer_go_on(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    killed = CcpUnixDatapath(path)
    peer = Peer(path, tmp_path / "peer")
    for number in (3, 4, 5):
        peer.create(number, "cubic")
    peer.send(Measure(5, FALLBACK_UID, []))
    killed.poll(POLL_MS)
    assert killed._ledger is not None
    killed._ledger.close()
    killed._socket.close()  # and nothing else of what ends one in order
    peer.all_received()
    with CcpUnixDatapath(path) as datapath:
        program, *asked = peer.all_received()
        assert isinstance(program, Install)
        assert [(one.flow, one.program) for one in asked if isinstance(one, ChangeProgram)] == [
            (3, FALLBACK_UID),
            (4, FALLBACK_UID),
        ]
        assert datapath.flows() == []
        peer.send(measure(datapath, 3, FALLBACK_PROGRAM, [], cwnd_bytes=50_000))
        (created,) = datapath.poll(POLL_MS).events()
        info = created.info  # type: ignore[union-attr]
        assert (info.cc_name, info.mss_bytes, info.dst_port) == ("ccp.cubic", 1448, 5001)
        assert info.init_cwnd_bytes == 50_000
        datapath.update(info.flow_id, 20_000)
        assert peer.received() == Update(3, [Field(IMPLICIT, CWND, 20_000)])
    peer.close()


def test_a_flow_that_none_knows_is_asked_when_it_measures(datapath: CcpUnixDatapath, peer: Peer) -> None:
    peer.send(Measure(7, 9, [1, 2, 3]))
    assert len(datapath.poll(POLL_MS)) == 0
    assert [type(message) for message in peer.all_received()] == [Install, ChangeProgram]
    peer.send(measure(datapath, 7, FALLBACK_PROGRAM, [], cwnd_bytes=30_000))
    (created,) = datapath.poll(POLL_MS).events()
    info = created.info  # type: ignore[union-attr]
    assert (info.cc_name, info.src_addr, info.mss_bytes) == ("ccp", "0.0.0.0", UNKNOWN_MSS_BYTES)
    assert info.init_cwnd_bytes == 30_000


def test_a_datapath_that_begins_again_has_none_of_the_flows_of_before(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    with CcpUnixDatapath(path) as first:
        peer = Peer(path, tmp_path / "peer")
        peer.create(3)
        first.poll(POLL_MS)
    with CcpUnixDatapath(path) as second:
        peer.send(Ready(1), Create(1, 14_480, 1448, 0, 0, 0, 0, ""))
        second.poll(POLL_MS)
    peer.all_received()
    with CcpUnixDatapath(path):
        asked = [one.flow for one in peer.all_received() if isinstance(one, ChangeProgram)]
    assert asked == [1]
    peer.close()
    with CcpUnixDatapath(path) as last:
        assert last.counters()["datapaths"] == 0


def test_what_cannot_be_read_of_an_agent_before_is_said_and_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "agent.flows").write_text("nonsense /tmp/peer\n")
    with CcpUnixDatapath(tmp_path / "agent") as datapath:
        assert datapath.counters()["datapaths"] == 0
    assert "cannot read" in caplog.text
    assert (tmp_path / "agent.flows").read_text() == ""


def test_the_ledger_is_written_again_when_max_of_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ccplane.datapath.ccp_unix.ledger.MAX_OLD_LINES", 10)
    ledger = Ledger(tmp_path / "ledger")
    ledger.joined("peer")
    creates = [Create(number, 14_480, 1448, 0, 0, 0, 0, "") for number in range(1, 31)]
    for create in creates:
        ledger.created("peer", create)
        if create.flow > 3:
            ledger.closed("peer", create.flow)
    ledger.close()
    assert len(ledger.path.read_text().splitlines()) <= 10 + 1 + 4
    again = Ledger(ledger.path)
    again.close()
    assert again.known == {"peer": {create.flow: create for create in creates[:3]}}
