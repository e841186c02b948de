from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ccp_algs import Algorithm, registry
from ccplane.agent import serve as serving
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import check_contract, find
from ccplane.agent.client import Client
from ccplane.agent.control import ControlOptions, control_socket
from ccplane.agent.description import Description, Plan, plan
from ccplane.agent.runfile import running
from ccplane.agent.serve import ServeOptions
from ccplane.base.errors import CcpError, Several, UsageError, VerifierError
from ccplane.datapath import ebpf
from tests.unit.agent.fakes import FakeDatapath, FakeInfo, fake_datapath

PIN_DIR = "/sys/fs/bpf/test"

SOURCE = """
from ccp_algs import Algorithm

class Mine(Algorithm):
    program = "(def (Report (acked 0))) (when true (:= Report.acked Ack.bytes_acked) (report))"

    def on_report(self, report):
        pass
"""


class Kernel:
    """Replaces `ccplane.datapath.ebpf`: returns a recording datapath, and records other calls."""

    def __init__(self, datapath: FakeDatapath, monkeypatch: pytest.MonkeyPatch) -> None:
        self.datapath = datapath
        self.options: list[ebpf.LoadOptions] = []
        self.unloaded: list[str] = []
        self.dropped = 0
        monkeypatch.setattr(serving.ebpf, "load", self.load)
        monkeypatch.setattr(serving.ebpf, "unload", self.unload)
        monkeypatch.setattr(serving.ebpf, "drop_capabilities", self.drop)

    def load(self, options: ebpf.LoadOptions) -> FakeDatapath:
        self.options.append(options)
        return self.datapath

    def unload(self, pin_dir: str) -> ebpf.Unloaded:
        assert self.datapath.closed
        self.unloaded.append(pin_dir)
        return ebpf.Unloaded()

    def drop(self, keep: list[str] | None = None) -> list[str]:
        self.dropped += keep is None  # the thread that reads files keeps another
        return []


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(fake_datapath(), monkeypatch)


def serve(tmp_path: Path, *algorithms: str | type[Algorithm], **more: Any) -> AgentLoop:
    """Serve algorithms (default `reno`), by default for 0 s."""
    called = {name: more.pop(name) for name in ("on_start", "each_turn") if name in more}
    described = Description(algorithms or ("reno",), rules=more.pop("rules", ()))
    options = {"duration_s": 0.0, "load": ebpf.LoadOptions(pin_dir=PIN_DIR), "run_dir": tmp_path, **more}
    return serving.serve(plan(described), ServeOptions(**options), **called)


def stop(agent_loop: AgentLoop) -> None:
    agent_loop.request_stop()


def test_plain_name_asks_for_ecn_when_the_default_needs_it() -> None:
    ready = plan(Description(["cubic", "dctcp"], default="dctcp", rules=["dport=1 -> dctcp"]))
    assert ready.registrations["ccp"] is True
    assert ready.without_ecn() == []


def test_parameters_are_set_before_anything_runs() -> None:
    reno = registry.get("reno")
    before = reno.beta  # type: ignore[union-attr]
    try:
        plan(Description(["reno"], params={"beta": "0.75"}))
        assert reno.beta == 0.75  # type: ignore[union-attr]
    finally:
        reno.beta = before  # type: ignore[union-attr]


def test_what_measures_is_not_tried_before() -> None:
    class Measures(Algorithm):
        program = "(def (Report (acked 0))) (when true (report))"
        seen: ClassVar[list[Any]] = []

        def on_report(self, report: Any) -> None:
            self.seen.append(report.now_us)

    plan(Description([Measures]), tries=False)
    assert Measures.seen == []
    plan(Description([Measures]))
    assert Measures.seen != []


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    with pytest.raises(Several) as caught:
        plan(Description(["reno"], params={"x": "1"}, rules=["bad"], names={"y": "ccp.y"}, default="z"))
    assert [error.slug for error in caught.value.errors] == [
        "algorithm.unknown",
        "rule.syntax",
        "algorithm.unknown",
        "param.unknown_params",
    ]


@pytest.mark.parametrize(
    ("callback", "slug", "line", "why"),
    [
        ("self.flow.set(cwnd_bytes=self.nothing)", "algorithm.check_failed", 8, "no attribute 'nothing'"),
        ("self.flow.set(cwnd_bytes=-1)", "contract.bad_value", 8, "from 1 to"),
        ("helper.decide(report)", "algorithm.check_failed", 2, "ZeroDivisionError"),
        ("1 / report.acked", "algorithm.check_failed", 8, "by zero; every field of the report is 0"),
        ("raise SystemExit(3)", "algorithm.check_failed", 8, "SystemExit: 3"),
    ],
)
def test_broken_callback_is_refused_at_the_start_with_its_line(
    kernel: Kernel, tmp_path: Path, callback: str, slug: str, line: int, why: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE.replace("pass", callback) + "\nimport helper\n")
    (tmp_path / "helper.py").write_text("def decide(report):\n    return 1 / 0\n")
    with pytest.raises(CcpError) as caught:
        serve(tmp_path, str(file))
    assert caught.value.slug == slug
    assert caught.value.where.endswith(f"{'helper' if line == 2 else 'mine'}.py:{line}")
    assert why in str(caught.value)
    assert kernel.options == [], "nothing was loaded"


def test_callback_without_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE.replace("pass", "\n        while True: pass"))
    with pytest.raises(UsageError) as caught:
        check_contract(find(str(file)), limit_s=0.2)
    assert caught.value.slug == "algorithm.check_failed"
    assert "endless loop" in caught.value.why


def test_flows_are_adopted_names_registered_and_capabilities_dropped(kernel: Kernel, tmp_path: Path) -> None:
    kernel.datapath.there = {1: FakeInfo(1), 2: FakeInfo(2, cc_name="ccp.dctcp")}
    seen: list[Any] = []

    def started(agent_loop: AgentLoop, ready: Plan) -> None:
        info = running(PIN_DIR, tmp_path)
        assert info is not None
        seen.append((agent_loop.flow_ids(), dict(kernel.datapath.names), kernel.dropped, info))

    serve(tmp_path, "reno", "dctcp", rules=["dport=80 -> dctcp"], on_start=started)
    ((flow_ids, names, dropped, info),) = seen
    assert sorted(flow_ids) == [1, 2]
    assert names == {"ccp": False, "ccp.reno": False, "ccp.dctcp": True}
    assert dropped == 1
    assert info.algorithms == {"ccp.reno": "reno", "ccp.dctcp": "dctcp"}
    assert set(info.programs.values()) >= {"reno/default", "dctcp/default"}
    assert (info.default, info.rules) == ("reno", ["dport=80 -> dctcp"])
    assert kernel.datapath.closed
    assert kernel.unloaded == []
    assert running(PIN_DIR, tmp_path) is None


def test_names_of_an_earlier_agent_are_taken_off(kernel: Kernel, tmp_path: Path) -> None:
    kernel.datapath.names = {"ccp": False, "ccp.old": False}
    serve(tmp_path)
    assert kernel.datapath.names == {"ccp": False, "ccp.reno": False}


def test_rule_to_an_algorithm_that_gets_no_ecn_is_warned_of(
    kernel: Kernel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        serve(tmp_path, "reno", "dctcp", rules=["dport=80 -> dctcp"])
    assert "dport=80 -> dctcp" in caplog.text
    assert "ccp.dctcp" in caplog.text


def test_capabilities_are_kept_and_everything_unloaded_when_asked(kernel: Kernel, tmp_path: Path) -> None:
    serve(tmp_path, keep_capabilities=True, unload_at_end=True)
    assert kernel.dropped == 0
    assert kernel.unloaded == [PIN_DIR]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_cleanly_and_handlers_are_restored(
    kernel: Kernel, tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    turns = []

    def turn(agent_loop: AgentLoop) -> None:
        turns.append(1)
        signal.raise_signal(number)

    serve(tmp_path, duration_s=None, each_turn=turn)
    assert turns == [1]
    assert kernel.datapath.closed
    assert signal.getsignal(number) is before


def test_second_signal_interrupts(kernel: Kernel, tmp_path: Path) -> None:
    def turn(agent_loop: AgentLoop) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        serve(tmp_path, duration_s=None, each_turn=turn)
    assert kernel.datapath.closed


def test_serving_works_in_another_thread(kernel: Kernel, tmp_path: Path) -> None:
    planes: list[AgentLoop] = []
    thread = threading.Thread(target=lambda: planes.append(serve(tmp_path, duration_s=None, each_turn=stop)))
    thread.start()
    thread.join(60)
    assert len(planes) == 1
    assert kernel.datapath.closed


@pytest.mark.parametrize(("adopted", "unloaded"), [(False, [PIN_DIR]), (True, [])])
def test_failed_start_takes_away_what_it_loaded_and_leaves_what_it_adopted(
    kernel: Kernel, tmp_path: Path, adopted: bool, unloaded: list[str]
) -> None:
    kernel.datapath.adopted = adopted
    kernel.datapath.refuse = {"default"}
    with pytest.raises(VerifierError):
        serve(tmp_path)
    assert kernel.datapath.closed
    assert kernel.unloaded == unloaded
    assert kernel.datapath.names == {}
    assert running(PIN_DIR, tmp_path) is None


def test_agent_is_controlled_over_its_socket_and_the_run_file_follows(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    kernel.datapath.there = {1: FakeInfo(1)}
    seen: list[Any] = []
    reported: list[Any] = []

    def drive(agent_loop: AgentLoop) -> None:
        with Client(control_socket(PIN_DIR, tmp_path)) as client:
            seen.append(client.flows()["algorithm"].to_dict())
            before = running(PIN_DIR, tmp_path)
            client.load(SOURCE.replace("bytes_acked", "packets_acked"), "mine")
            seen.append((before, running(PIN_DIR, tmp_path)))
            client.load(SOURCE, "second")
            client.switch("second")
            seen.append(running(PIN_DIR, tmp_path))
            client.stop()

    threads: list[threading.Thread] = []

    def started(agent_loop: AgentLoop, ready: Plan) -> None:
        threads.append(threading.Thread(target=drive, args=(agent_loop,)))
        threads[0].start()

    serve(
        tmp_path,
        str(file),
        duration_s=60.0,
        control=ControlOptions(""),
        on_reload=lambda name, came: reported.append(name),
        on_start=started,
    )
    threads[0].join()
    flows, (before, reloaded), switched = seen
    assert flows == {1: "mine"}
    assert before.programs != reloaded.programs
    assert set(reloaded.programs.values()) == {"mine/default"}
    assert switched.default == "second"
    assert switched.algorithms == {"ccp.mine": "mine", "ccp.second": "second"}
    assert not list(tmp_path.glob("*.sock"))


def test_file_that_cannot_be_watched_leaves_nothing_after(kernel: Kernel, tmp_path: Path) -> None:
    class NoFile(Algorithm):
        program = "(def (Report (acked 0))) (when true (report))"

    NoFile.__module__ = "no_file"
    with pytest.raises(UsageError) as caught:
        serve(tmp_path, NoFile, control=ControlOptions(""), on_reload=lambda name, came: None)
    assert caught.value.slug == "reload.no_file"
    assert kernel.datapath.closed
    assert kernel.unloaded == [PIN_DIR]
    assert not list(tmp_path.glob("*.sock"))
