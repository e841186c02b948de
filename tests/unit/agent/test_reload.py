from __future__ import annotations

import hashlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ccp_algs import registry
from ccplane.agent.candidate import check_takeover, prepare
from ccplane.agent.changes import Which
from ccplane.agent.source import read, version_of
from ccplane.base.errors import CcpError, UsageError, VerifierError
from ccplane.datapath.ebpf import compile_program
from tests.unit.agent.fakes import FakeClosed, FakeCreated, FakeInfo, FakeReport, FakeStats, Written
from tests.unit.agent.live import FIRST, FOLD, SECOND, edited, text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.py"


def test_running_and_new_flows_get_the_new_version_and_state_is_carried(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.report(1, acked=1)
        old, handle = live.agent_loop.hosts["mine"].version, live.handle
        done = live.save(SECOND)
        live.report(1, acked=1)
        assert live.datapath.written[-1] == Written(1, 50_002, None, None, None)
        live.feed(FakeCreated(FakeInfo(2)))
        live.report(2, acked=1)
        assert live.datapath.written[-1] == Written(2, 50_001, None, None, None)
        assert (done.flows, done.programs, done.old_sha256) == (1, {"default": "kept"}, old.sha256)
        assert done.new_sha256 == live.agent_loop.hosts["mine"].version.sha256 != old.sha256
        assert live.handle == handle
        (event,) = [event for event in live.events if event.kind == "algorithm:reloaded"]
        assert (event.detail["old_sha256"], event.detail["new_sha256"]) == (old.sha256, done.new_sha256)


def test_unchanged_program_is_neither_installed_again_nor_written_to(file: Path) -> None:
    with edited(file, FIRST, 1, 2) as live:
        before, written = dict(live.datapath.installed), len(live.datapath.written)
        live.save(SECOND)
        assert live.datapath.installed == before
        assert live.datapath.written[written:] == []
        live.feed(FakeClosed(1, FakeStats(1)), FakeClosed(2, FakeStats(2)))
        assert live.agent_loop.hosts["mine"].programs.all()[0].users == 0


def test_changed_program_is_replaced_and_gets_the_registers_that_on_create_sets(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        (old,) = live.datapath.installed
        done = live.save(FIRST.replace("Ack.bytes_acked", "Ack.packets_acked"))
        assert done.programs == {"default": "replaced"}
        (new,) = live.datapath.installed
        assert new != old
        assert live.datapath.written[-1] == Written(1, None, None, new, {"beta_permille": 700})
        live.feed(FakeReport(1, old, acked=1))
        assert live.agent_loop.counters.reports_stale == 1


def test_flow_stays_with_the_program_of_the_same_name(file: Path) -> None:
    two = FIRST.replace(f"program = '''{FOLD}'''", f"program = {{'a': '''{FOLD}''', 'b': '''{FOLD}#b'''}}")
    with edited(file, two, 1) as live:
        live.agent_loop.flows[1].flow.set_program("b")
        live.save(two.replace("10_000", "11_000"))
        assert live.agent_loop.flows[1].flow.program == "b"
        done = live.save(two.replace("'b'", "'c'"))
        assert done.programs == {"a": "kept", "b": "removed", "c": "new"}
        assert live.agent_loop.flows[1].flow.program == "a"


def test_new_attributes_have_their_first_values_and_windows_of_on_create_are_forgotten(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.instance().n = 41
        live.save(FIRST.replace("self.n = 0", "self.n = 0; self.extra = 5"))
        assert (live.instance().n, live.instance().extra) == (41, 5)
        assert [one.cwnd_bytes for one in live.datapath.written] == [20_000]


def test_what_flows_report_is_an_event_but_a_new_version_does_not_report_of_their_start_again(
    file: Path,
) -> None:
    reporting = FIRST.replace(
        "self.n = 0", 'self.n = 0\n        self.flow.emit("mine:begun", flow=1)'
    ).replace("self.n += 1", 'self.n += 1\n        self.flow.emit("mine:went_on", n=self.n)')
    with edited(file, reporting, 1) as live:
        live.report(1)
        live.save(reporting.replace("10_000", "50_000"))
        live.report(1)
        reported = [event for event in live.events if event.kind.startswith("mine:")]
        assert [(event.kind, event.detail) for event in reported] == [
            ("mine:begun", {"flow": 1}),
            ("mine:went_on", {"n": 1}),
            ("mine:went_on", {"n": 2}),
        ]
        assert {(event.algorithm, event.flow.flow_id) for event in reported if event.flow} == {("mine", 1)}


def test_on_reload_may_decide_by_itself_and_write(file: Path) -> None:
    own = "\n    def on_reload(self, old):\n        self.n = 7\n        self.flow.set(cwnd_bytes=old.n + 1)\n"
    with edited(file, FIRST, 1) as live:
        live.save(FIRST + own)
        assert live.instance().n == 7
        assert live.datapath.written[-1] == Written(1, 1, None, None, None)


def test_parameters_stay_set_for_all_and_for_one(file: Path) -> None:
    with edited(file, FIRST, 1, 2) as live:
        live.agent_loop.changes.set_params({"beta": 0.6}, Which())
        live.agent_loop.changes.set_params({"beta": 0.7}, Which(2))
        live.save(SECOND)
        assert (live.instance(1).beta, live.instance(2).beta) == (0.6, 0.7)
        live.feed(FakeCreated(FakeInfo(3)))
        assert live.instance(3).beta == 0.6


def test_default_that_was_not_set_changes_with_the_source(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.save(FIRST.replace("Param(0.5", "Param(0.8"))
        assert live.instance().beta == 0.8


def test_flow_whose_algorithm_failed_starts_afresh(file: Path) -> None:
    failing = FIRST.replace("self.n += 1", "self.n += 1 // (report.acked != 666)")
    with edited(file, FIRST, 1) as live:
        live.save(failing)
        live.report(1, acked=666)
        assert live.agent_loop.flows[1].failed
        live.save(SECOND)
        assert not live.agent_loop.flows[1].failed
        assert live.datapath.written[-1] == Written(1, 20_000, None, live.handle, {"beta_permille": 700})
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 50_001


def test_name_stays_whatever_the_new_version_calls_itself(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.save(FIRST.replace("class Mine", "class Other"))
        assert live.agent_loop.flow_ids("mine") == [1]


def test_old_modules_do_not_pile_up(file: Path) -> None:
    def modules() -> int:
        return sum(name.startswith("ccp_algs_live_") and "." not in name for name in sys.modules)

    with edited(file, FIRST, 1) as live:
        before = modules()
        for i in range(5):
            live.save(FIRST.replace("10_000", str(20_000 + i)))
            with pytest.raises(CcpError):
                live.save(FIRST + f"\n1 / 0  # {i}")
        assert modules() == before + 1


# Versions that are refused

BROKEN: dict[str, tuple[str, str, str]] = {
    "syntax": (
        FIRST.replace("def on_create(self, info):", "def on_create(self info):"),
        "reload.import_failed",
        ":11",
    ),
    "body": (FIRST + "\nraise RuntimeError('no')\n", "reload.import_failed", "RuntimeError: no"),
    "exit": (FIRST + "\nimport sys\nsys.exit(3)\n", "reload.import_failed", "SystemExit"),
    "fold": (FIRST.replace("Ack.bytes_acked", "Ack.bytes_ackd"), "lang.unknown_field", ":6:"),
    "missing method": (
        FIRST.replace("self.n += 1", "self.grow()"),
        "reload.check_failed",
        "has no attribute 'grow'",
    ),
    "misspelt callback": (FIRST.replace("on_report", "on_repot"), "contract.unknown_callback", "on_report"),
    "other parameters": (
        FIRST.replace("on_report(self, report)", "on_report(self)"),
        "algorithm.bad_signature",
        "mine.py:",
    ),
    "callback gone": (FIRST.replace("def on_report", "def report"), "contract.missing_callback", "mine.py"),
    "on_reload": (
        FIRST + "\n    def on_reload(self, old):\n        raise KeyError('x')\n",
        "reload.cannot_take_over",
        "KeyError: 'x'",
    ),
    "other kind": (
        text("def on_reports(self, reports, program):\n    return None", base="VectorAlgorithm"),
        "reload.other_kind",
        "vectorised",
    ),
    "no algorithm": ("x = 1\n", "reload.no_algorithm", "mine.py"),
    "two algorithms": (
        FIRST.replace("class Mine", "class One") + FIRST.replace("class Mine", "class Two"),
        "reload.which_class",
        "Two",
    ),
    "not deterministic": (
        FIRST.replace("10_000 +", "1 + __import__('random').randrange(10**9) +"),
        "contract.not_deterministic",
        "mine.py",
    ),
    "nul": (FIRST + "\0", "reload.import_failed", "null"),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_edit_leaves_the_old_version_and_an_error(file: Path, broken: tuple[str, str, str]) -> None:
    source, slug, says = broken
    with edited(file, FIRST, 1, 2) as live:
        live.report(1, acked=1)
        instances = [live.instance(i) for i in (1, 2)]
        written, installed = len(live.datapath.written), dict(live.datapath.installed)
        before = live.agent_loop.hosts["mine"].version
        with pytest.raises(CcpError) as caught:
            live.save(source)
        assert caught.value.slug == slug
        assert says in str(caught.value)
        assert "mine.py" in str(caught.value)
        assert [live.instance(i) for i in (1, 2)] == instances
        assert live.agent_loop.hosts["mine"].version is before
        assert live.datapath.installed == installed
        live.report(1, acked=1)
        assert live.datapath.written[written:] == [Written(1, 10_002, None, None, None)]
        live.agent_loop.turn(0)
        (event,) = [event for event in live.events if event.kind == "algorithm:refused"]
        assert event.detail["error"]["slug"] == slug
        assert event.detail["old_sha256"] == before.sha256


def test_exception_for_one_flow_leaves_the_old_version_of_all(file: Path) -> None:
    """A version that passes the check, but raises for the third real flow."""
    own = """
    def on_reload(self, old):
        super().on_reload(old)
        if self.flow.info.flow_id == 3:
            raise ValueError("third")
    """
    with edited(file, FIRST, 1, 2, 3, 4) as live:
        instances = [live.instance(i) for i in (1, 2, 3, 4)]
        installed, written = dict(live.datapath.installed), len(live.datapath.written)
        with pytest.raises(UsageError) as caught:
            live.save(FIRST.replace("Ack.bytes_acked", "Ack.packets_acked") + own)
        assert (caught.value.slug, caught.value.why) == ("reload.cannot_take_over", "ValueError: third")
        assert caught.value.where.endswith("mine.py:23")
        assert [live.instance(i) for i in (1, 2, 3, 4)] == instances
        assert live.datapath.installed == installed
        assert live.datapath.written[written:] == []


def test_program_that_the_kernel_refuses_leaves_the_old_version(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.datapath.refuse.add("default")
        with pytest.raises(VerifierError):
            live.save(FIRST.replace("Ack.bytes_acked", "Ack.packets_acked"))
        assert list(live.datapath.installed) == [live.handle]


def test_value_that_the_new_version_refuses_leaves_the_old_one(file: Path) -> None:
    with edited(file, FIRST, 1) as live:
        live.agent_loop.changes.set_params({"beta": 0.9}, Which())
        with pytest.raises(CcpError) as caught:
            live.save(FIRST.replace("max=0.9", "max=0.8"))
        assert caught.value.slug == "param.out_of_range"
        assert live.instance().beta == 0.9


def test_name_that_the_kernel_refuses_runs_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with edited(file, FIRST, 1) as live:

        def refuse(*_arguments: Any) -> None:
            raise CcpError("load.register", "no")

        monkeypatch.setattr(live.datapath, "register", refuse)
        with pytest.raises(CcpError):
            live.load(SECOND, "second")
        assert list(live.agent_loop.hosts) == ["mine"]
        assert list(live.datapath.installed) == [live.handle]


# Vectorised algorithms

VECTOR = text(
    """
    gain = 2

    def __init__(self):
        self.seen = {}

    def on_create(self, info):
        self.seen[info.flow_id] = 0

    def on_reports(self, reports, program):
        for flow_id in reports["flow_id"].tolist():
            self.seen[flow_id] += 1
        return Updates(reports["flow_id"], self.gain * reports["cwnd_bytes"]) if len(reports) else None

    def on_close(self, flow_id):
        del self.seen[flow_id]
    """,
    base="VectorAlgorithm",
)


def test_vectorised_algorithm_is_swapped_with_its_state(file: Path) -> None:
    with edited(file, VECTOR, 1, 2) as live:
        live.report(1, acked=1)
        host: Any = live.agent_loop.hosts["mine"]
        before = host.instance
        done = live.save(VECTOR.replace("gain = 2", "gain = 3"))
        assert (done.flows, host.instance.seen) == (2, {1: 1, 2: 0})
        assert host.instance is not before
        live.report(2, acked=1)
        assert live.datapath.written_many[-1] == ([2], [43_440], [0])
        assert (host.instance.seen, before.seen) == ({1: 1, 2: 1}, {1: 1, 2: 0})


def test_broken_vectorised_edit_leaves_the_old_version(file: Path) -> None:
    with edited(file, VECTOR, 1) as live:
        host: Any = live.agent_loop.hosts["mine"]
        before = host.instance
        for broken in (
            VECTOR.replace("self.seen[flow_id] += 1", "self.gone[flow_id] += 1"),
            VECTOR + "\n    def on_reload(self, old):\n        raise ValueError\n",
        ):
            with pytest.raises(CcpError):
                live.save(broken)
        assert host.instance is before


def test_vectorised_flows_that_failed_start_afresh(file: Path) -> None:
    with edited(file, VECTOR, 1) as live:
        live.save(VECTOR.replace("+= 1", "+= 1 // (1 - (reports['acked'] == 666).any())"))
        live.report(1, acked=666)
        assert live.agent_loop.flows[1].failed
        live.save(VECTOR)
        live.report(1, acked=1)
        assert live.datapath.written_many[-1][0] == [1]


# Modules beside the file

HELPED = text(
    """
    def on_create(self, info):
        self.filter = helper.Filter()

    def on_report(self, report):
        self.flow.set(cwnd_bytes=self.filter.add(report.acked))
    """,
    head="import helper",
)
HELPER = """
class Filter:
    total = 0
    def add(self, value):
        self.total += value
        return min(10_000 + self.total, 1 << 30)
"""


def test_helper_is_edited_and_its_objects_are_carried_over(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text(HELPER)
    with edited(tmp_path / "mine.py", HELPED, 1) as live:
        live.report(1, acked=5)
        old = live.instance().filter
        before = live.agent_loop.hosts["mine"].version.sha256
        helper.write_text(HELPER.replace("10_000", "50_000"))
        done = live.do(lambda: live.loader.reload("mine"))
        live.report(1, acked=1)
        assert live.datapath.written[-1].cwnd_bytes == 50_006
        assert type(old) is not type(live.instance().filter), "it became one of the new class"
        assert old.add(0) == 10_005, "the old version has its old helper"
        assert (done.old_sha256, done.new_sha256) == (before, live.agent_loop.hosts["mine"].version.sha256)
        assert before != done.new_sha256
        files = ["helper.py", "mine.py"]
        listed = subprocess.run(["sha256sum", *files], cwd=tmp_path, capture_output=True, check=True).stdout
        assert done.new_sha256 == hashlib.sha256(listed).hexdigest(), "as the documentation says"
        assert live.do(lambda: live.loader.reload("mine")).notes


def test_broken_helper_leaves_the_old_version_with_the_old_helper(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text(HELPER)
    with edited(tmp_path / "mine.py", HELPED, 1) as live:
        for broken, line in (
            ("class Filter:\n    def add(self, value)\n", 2),
            (HELPER.replace("self.total += value", "self.totl += value"), 5),
            (HELPER.replace("class Filter", "class Filtre"), None),
        ):
            helper.write_text(broken)
            with pytest.raises(CcpError) as caught:
                live.do(lambda: live.loader.reload("mine"))
            assert line is None or caught.value.where.endswith(f"helper.py:{line}")
            live.report(1, acked=0)
            assert live.datapath.written[-1].cwnd_bytes == 10_000
        helper.unlink()
        with pytest.raises(CcpError) as caught:
            live.do(lambda: live.loader.reload("mine"))
        assert "helper" in caught.value.why


@pytest.mark.parametrize("name", registry.names())
def test_every_algorithm_can_be_edited_while_it_runs(name: str) -> None:
    cls = registry.get(name)
    source = read(str(inspect.getsourcefile(cls)))
    candidate = prepare(source, compile_program, cls.__qualname__)
    try:
        assert candidate.name == name
        assert candidate.algorithm is not cls
        check_takeover(cls, candidate)
        assert candidate.version.sha256 == version_of(cls).sha256
    finally:
        candidate.drop()
