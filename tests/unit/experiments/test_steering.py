from __future__ import annotations

import csv
import fcntl
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from ccp_algs import params_of, set_params
from ccp_algs.api import Updates, VectorAlgorithm
from ccp_algs.cubic import Cubic
from ccplane.agent.algorithms import prepare
from ccplane.agent.client import Client
from ccplane.agent.events import Events
from ccplane.base.errors import LoadError
from ccplane.datapath import ebpf
from experiments.events import SetParam
from experiments.runs import steering
from experiments.runs.noted import DECISION_COLUMNS, notes
from experiments.runs.planned import PlannedRun
from experiments.runs.session import fire, flow_records
from experiments.runs.steering import turn
from experiments.runs.variants import Variant, described, variants_of
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic import Quic
from telemetry.schema import FlowId, IntSummary, ReceiverSignal, Sample
from tests.unit.experiments.test_run import SCENARIO


def scenario(*flows: tuple[str, dict[str, Any]], events: tuple[SetParam, ...] = ()) -> Scenario:
    made = [
        FlowSpec(f"f{n}", "sender", "receiver", algorithm, params)
        for n, (algorithm, params) in enumerate(flows)
    ]
    return SCENARIO.replace(flows=tuple(made), events=events)


def names(of: Scenario) -> dict[str, str]:
    return {flow: variant.congestion for flow, variant in variants_of(of).by_flow.items()}


def test_flows_with_the_same_parameters_share_a_variant() -> None:
    flows = [
        ("cubic", {}),
        ("cubic", {"beta": 0.5}),
        ("kernel/cubic", {}),
        ("cubic", {"beta": 0.5}),
        ("reno", {}),
    ]
    assert names(scenario(*flows)) == {
        "f0": "ccp.cubic",
        "f1": "ccp.cubic_2",
        "f3": "ccp.cubic_2",
        "f4": "ccp.reno",
    }
    assert [one.name for one in variants_of(scenario(*flows)).all] == ["cubic", "cubic_2", "reno"]


def test_a_flow_whose_parameters_change_by_themselves_has_its_own_variant() -> None:
    of = scenario(("cubic", {}), ("cubic", {}), ("cubic", {}), events=(SetParam(1, "beta", 0.5, flow="f1"),))
    variants = variants_of(of)
    assert names(of) == {"f0": "ccp.cubic", "f1": "ccp.cubic_2", "f2": "ccp.cubic"}
    assert [one.name for one in variants.meant_by(of.events[0])] == ["cubic_2"]  # type: ignore[arg-type]
    assert [one.name for one in variants.meant_by(SetParam(1, "beta", 0.5, algorithm="cubic"))] == [
        "cubic",
        "cubic_2",
    ]


def test_flows_over_tcp_and_quic_have_variants_and_agents_of_their_own() -> None:
    quic = Quic((1000,))
    flows = [
        FlowSpec("tcp", "sender", "receiver", "cubic"),
        FlowSpec("quic", "sender", "receiver", "cubic", traffic=quic),
        FlowSpec("quinn", "sender", "receiver", "quinn/cubic", traffic=quic),
        FlowSpec("kernel", "sender", "receiver", "kernel/cubic"),
    ]
    of = SCENARIO.replace(flows=tuple(flows))
    variants = variants_of(of)
    assert names(of) == {"tcp": "ccp.cubic", "quic": "ccp.cubic_2"}
    assert [one.name for one in variants.over("tcp")] == ["cubic"]
    assert [one.name for one in variants.over("quic")] == ["cubic_2"]
    records = flow_records(of, variants)
    assert [one.congestion for one in records] == ["ccp.cubic", "ccp.cubic_2", "quinn/cubic", "cubic"]
    reported: list[tuple[str, str]] = []
    agents: Any = {
        name: SimpleNamespace(set_param=lambda variant, *_, name=name: reported.append((name, variant.name)))
        for name in ("tcp", "quic")
    }
    network: Any = None
    fire(SetParam(1, "beta", 0.5, algorithm="cubic"), network, agents, variants)
    assert reported == [("tcp", "cubic"), ("quic", "cubic_2")]


def test_runs_whose_agent_is_of_quic_flows_need_no_turn(tmp_path: Path) -> None:
    quic = FlowSpec("quic", "sender", "receiver", "cubic", traffic=Quic((1000,)))
    assert not PlannedRun("key", {}, 0, SCENARIO.replace(flows=(quic,))).takes_turns
    both = SCENARIO.replace(flows=(quic, FlowSpec("tcp", "sender", "receiver", "cubic")))
    assert PlannedRun("key", {}, 0, both).takes_turns


def test_the_agent_of_quic_flows_is_at_its_socket_and_takes_changes(tmp_path: Path) -> None:
    variant = Variant("cubic", "cubic", {"beta": 0.8}, "quic")
    socket = tmp_path / "agent"
    with open(tmp_path / "log", "wb") as log:
        agent = steering.Steering([variant], log, None, str(socket), datapath="quic")
        try:
            assert socket.is_socket()
            agent.set_param(variant, "beta", 0.5)
            with Client(pin_dir=str(socket)) as client:
                (beta,) = [one for one in client.get_params("cubic")["cubic"] if one["name"] == "beta"]
            assert beta["value"] == 0.5
        finally:
            agent.stop()
    assert agent.counters["flows_created"] == 0
    assert not socket.exists()


def test_names_fit_into_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "My-Very-Long-Name.py"
    file.write_text("from ccp_algs.cubic import Cubic\n\n\nclass Mine(Cubic):\n    name = ''\n")
    of = scenario(*((str(file), {"beta": 0.4 + n / 100}) for n in range(12)))
    found = list(names(of).values())
    assert found[0] == "ccp.my_very_lon"
    assert found[11] == "ccp.my_very__12"
    assert len(set(found)) == 12
    assert max(map(len, found)) <= 15


def test_variants_have_parameters_of_their_own() -> None:
    what = described([Variant("cubic", "cubic", {}), Variant("cubic_2", "cubic", {})])
    first, second = prepare(what.algorithms, ebpf.compile_program)
    assert (first.name, second.name) == ("cubic", "cubic_2")
    before = Cubic.beta
    set_params(first.algorithm, {"beta": 0.5})
    assert (first.algorithm.beta, second.algorithm.beta, Cubic.beta) == (0.5, before, before)  # type: ignore[union-attr]
    assert params_of(second.algorithm).keys() == params_of(Cubic).keys()
    assert list(first.programs) == list(second.programs)


def test_one_run_at_a_time_has_the_agent(tmp_path: Path) -> None:
    lock, order = tmp_path / "new" / "lock", []
    reported = threading.Event()

    def second() -> None:
        with turn(reported.set, lock):
            order.append("second")

    with turn(lambda: order.append("waited"), lock):
        thread = threading.Thread(target=second)
        thread.start()
        assert reported.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_who_has_a_copy_of_the_lock_keeps_it(tmp_path: Path) -> None:
    with turn(lock=tmp_path / "lock") as file:
        agents = os.dup(file)
    with open(tmp_path / "lock") as again, pytest.raises(BlockingIOError):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(agents)
    with turn(lambda: pytest.fail("it waited"), tmp_path / "lock"):
        pass


def test_a_lock_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LoadError) as caught, turn(lock=tmp_path / "file" / "lock"):
        pass
    assert caught.value.slug == "load.no_run_dir"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; print('last words', file=sys.stderr)", "it exited"),
        ("import time; time.sleep(60)", "it does not answer"),
    ],
)
def test_an_agent_that_says_nothing_is_reported_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    real = steering.subprocess.Popen

    def stand_in(command: list[str], **options: Any) -> Any:
        return real([command[0], "-c", program], **options)

    monkeypatch.setattr(steering.subprocess, "Popen", stand_in)
    monkeypatch.setattr(steering, "START_TIMEOUT_S", 10.0 if "words" in program else 0.1)
    monkeypatch.setattr(steering, "STOP_TIMEOUT_S", 0.1)
    unloaded: list[str] = []
    monkeypatch.setattr(steering.ebpf, "unload", unloaded.append)
    with (
        open(tmp_path / "log", "wb") as log,
        turn(lock=tmp_path / "lock") as lock,
        pytest.raises(steering.RunError) as caught,
    ):
        steering.Steering([Variant("cubic", "cubic")], log, lock, "/sys/fs/bpf/nowhere")
    assert caught.value.slug == "run.agent"
    assert caught.value.why.startswith(why)
    assert ("last words" in caught.value.why) == ("words" in program)
    assert unloaded == ([] if "words" in program else ["/sys/fs/bpf/nowhere"])  # one was killed


class Listening(Cubic):
    received: ClassVar[list[Any]] = []

    def on_telemetry(self, sample: Any) -> None:
        self.received.append(sample)


class ListeningVector(VectorAlgorithm):
    program = "(def (Report (volatile acked 0))) (when true (report))"

    def on_telemetry(self, samples: Sequence[tuple[int, Any]]) -> Updates | None:
        flow_ids = np.array([flow for flow, _ in samples], np.uint64)
        return Updates(flow_ids, np.zeros_like(flow_ids))


def sample_of(body: Any) -> Sample:
    return Sample(kind="x", body=body, sender="sink", topic="t", received_us=1)


def test_it_is_reported_when_an_algorithm_has_answered() -> None:
    order: list[Any] = Listening.received
    variant: Any = described(
        [Variant("own", f"{__name__}:Listening")], lambda *what: order.append(what)
    ).algorithms[0]
    one = variant.__new__(variant)
    one.flow = SimpleNamespace(info=SimpleNamespace(flow_id=7))
    one.on_telemetry("sample")
    assert order == ["sample", (7, "sample")]


def test_it_is_reported_of_each_sample_that_a_vectorised_algorithm_answers_to() -> None:
    reported: list[Any] = []
    variant: Any = described(
        [Variant("own", f"{__name__}:ListeningVector")], lambda *what: reported.append(what)
    ).algorithms[0]
    updates = variant.__new__(variant).on_telemetry([(7, "a"), (8, "b")])
    assert updates.flow_ids.tolist() == [7, 8]
    assert reported == [(7, "a"), (8, "b")]


def test_decisions_on_summaries_of_in_band_telemetry_are_noted(tmp_path: Path) -> None:
    info = SimpleNamespace(src_addr="fd78::1", src_port=1000, dst_addr="fd78::2", dst_port=5201)
    flows = {7: SimpleNamespace(flow=SimpleNamespace(info=info))}
    agent_loop: Any = SimpleNamespace(flows=flows, events=Events())
    data = FlowId(src="fd78::1", src_port=1000, dst="fd78::2", dst_port=5201)
    acks = FlowId(src="fd78::2", src_port=5201, dst="fd78::1", dst_port=1000)
    before_us = time.monotonic_ns() // 1000
    with notes(decisions=tmp_path / "decisions") as noted:
        assert noted.note is not None
        noted.note(7, sample_of(IntSummary(flow=data)))  # a contract test, before there is a plane
        noted.begin(agent_loop)
        noted.note(7, sample_of(ReceiverSignal(peer="10.0.0.1")))
        for flow in (data, acks):
            noted.note(7, sample_of(IntSummary(flow=flow, interval_us=10_000, end_mono_us=before_us)))
    rows = list(csv.DictReader((tmp_path / "decisions").read_text().splitlines()))
    assert tuple(rows[0]) == DECISION_COLUMNS
    assert before_us <= int(rows[0].pop("t_us")) <= int(rows[1].pop("t_us"))
    same = {"src": "fd78::1", "src_port": "1000", "dst": "fd78::2", "dst_port": "5201"}
    same |= {"interval_us": "10000", "end_mono_us": str(before_us)}
    assert rows == [{**same, "of_acks": "False"}, {**same, "of_acks": "True"}]
