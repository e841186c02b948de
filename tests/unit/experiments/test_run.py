from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccplane.base.errors import LoadError, Several
from ccplane.datapath import registry
from experiments import run as runs
from experiments.errors import ResultError, RunError, ScenarioError
from experiments.netlab import LabError
from experiments.netlab.names import this_process
from experiments.netlab.spec import Direction
from experiments.results import Result
from experiments.run import judge, run
from experiments.runs import places
from experiments.runs.program import Failure, Program
from experiments.runs.recording import Recording
from experiments.scenario import FlowSpec, PointToPoint, Scenario
from tests.unit.experiments.recorded import flow_record, of_quic, quic_sample, record, recording, steady

SCENARIO = Scenario(
    name="a try",
    topology=PointToPoint(Direction(rate_bytes_per_s=12.5e6, delay_us=10_000)),
    flows=(FlowSpec("flow", "sender", "receiver", "kernel/cubic"),),
    duration_s=2,
)


@pytest.fixture(autouse=True)
def _no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", record)


def failing(error: BaseException) -> Any:
    def fail(scenario: Scenario, into: Recording, directory: Path, progress: Any) -> None:
        record(scenario, into, directory, progress)
        (directory / "agent.log").write_text("last words")
        raise error

    return fail


def test_a_result_has_all_that_explains_it(tmp_path: Path) -> None:
    reported: list[tuple[str, float]] = []
    result = run(SCENARIO, tmp_path / "new" / "here", progress=lambda *what: reported.append(what))
    assert sorted(os.listdir(tmp_path / "new")) == ["here"]
    assert reported == [("flows are sending", 2)]
    assert result.complete
    assert result.scenario == SCENARIO
    assert result.flows["goodput_bytes_per_s"][0] == pytest.approx(1e6)
    known = result.metadata
    assert known["scenario_sha256"] == SCENARIO.content_hash()
    assert known["machine"]["kernel"] == os.uname().release
    assert known["sysctls"]["net.ipv4.tcp_congestion_control"]
    assert len(known["ccplane"]["native_sha256"]) == 64
    assert {"format", "seed", "started", "wall_s", "name", "datapath"} <= set(known)


def test_without_a_place_the_result_is_in_memory_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = run(SCENARIO)
    assert os.listdir(tmp_path) == []
    assert result.directory is None
    assert len(result.flow_samples) == 21
    assert result.scenario.name == "a try"


def test_a_result_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    run(SCENARIO, tmp_path / "here")  # empty
    with pytest.raises(ResultError) as caught:
        run(SCENARIO, tmp_path / "here")
    assert caught.value.slug == "result.exists"


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError) as caught:
        run(SCENARIO, tmp_path / "file" / "here")
    assert caught.value.slug == "result.cannot_write"


def test_what_a_failed_run_got_is_kept_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = LabError("lab.emulator_died", "the emulator ended", "network emulator", "why", "fix")
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", failing(error))
    for _ in range(2):  # the second run replaces the leftovers of the first
        with pytest.raises(LabError):
            run(SCENARIO, tmp_path / "here")
    assert os.listdir(tmp_path) == ["here.incomplete"]
    kept = Result.load(tmp_path / "here.incomplete")
    assert not kept.complete
    assert kept.metadata["error"]["slug"] == "lab.emulator_died"
    assert len(kept.flow_samples) == 21
    assert (tmp_path / "here.incomplete" / "agent.log").read_text() == "last words"
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", record)
    run(SCENARIO, tmp_path / "here")
    assert os.listdir(tmp_path) == ["here"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)], ids=repr)
def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", failing(error))
    with pytest.raises(type(error)):
        run(SCENARIO, tmp_path / "here")
    assert os.listdir(tmp_path) == []


def test_an_interruption_while_the_directory_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def interrupted(path: str | Path, mode: int = 0o777) -> None:
        make(path, mode)  # Python handles signals after the call
        raise KeyboardInterrupt

    monkeypatch.setattr("os.mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(SCENARIO, tmp_path / "here")
    assert os.listdir(tmp_path) == []


def test_what_killed_runs_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    own = this_process()
    dead = tmp_path / f".here.{own.pid}-{own.start_ticks - 1}.tmp"  # an earlier process with the same pid
    alive = tmp_path / f".there.{own.pid}-{own.start_ticks}.tmp"
    other = tmp_path / ".hidden"
    for one in (dead, alive, other):
        one.mkdir()
    run(SCENARIO, tmp_path / "here")
    assert sorted(os.listdir(tmp_path)) == sorted([alive.name, other.name, "here"])


def test_another_datapath_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(RunError) as caught:
        run(SCENARIO, datapath="ns3")
    assert caught.value.slug == "run.datapath"
    assert "ebpf" in caught.value.fix
    assert "sim" in caught.value.fix


def test_a_datapath_that_is_added_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = (*registry.kinds(), replace(registry.kind_of(registry.SIM), name="ns3"))
    monkeypatch.setattr(registry, "kinds", lambda: kinds)
    monkeypatch.setitem(runs.DATAPATHS, "ns3", record)
    result = run(SCENARIO, datapath="ns3")
    assert result.metadata["datapath"] == "ns3"
    assert result.scenario == SCENARIO.replace(datapath="ns3")


def test_a_scenario_that_cannot_be_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError):
        run(
            SCENARIO.replace(flows=(FlowSpec("flow", "sender", "nobody", "kernel/cubic"),)), tmp_path / "here"
        )
    assert os.listdir(tmp_path) == []


def test_files_belong_to_whom_the_directory_around_them_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.update({Path(path).name: (uid, gid)}))
    monkeypatch.setattr(
        places, "_owner_of", lambda directory: (1000, 1001) if directory == tmp_path else None
    )
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "file").write_text("")
    places.give_away(tmp_path / "place")
    assert given == {"place": (1000, 1001), "file": (1000, 1001)}


def test_a_flow_that_none_saw_is_an_error() -> None:
    with pytest.raises(RunError) as caught:
        judge(recording())
    assert caught.value.slug == "run.no_samples"


def test_a_connection_with_another_congestion_control_is_an_error() -> None:
    judge(recording({"t_us": 1, "congestion": b"reno"}, {"t_us": 2}))  # chosen after connect()
    with pytest.raises(RunError) as caught:
        judge(recording({"t_us": 1}, {"t_us": 2, "congestion": b"reno"}))
    assert caught.value.slug == "run.wrong_congestion"
    assert "reno instead of cubic" in caught.value.message


def test_a_quic_connection_that_its_agent_did_not_have_is_an_error() -> None:
    judge(recording(flows=[of_quic(quic_sample(0.1, 0, congestion="quinn/cubic"), quic_sample(0.2, 0))]))
    with pytest.raises(RunError) as caught:
        judge(recording(flows=[of_quic(quic_sample(0.1, 0, congestion="quinn/cubic"))]))
    assert caught.value.slug == "run.wrong_congestion"
    assert "quinn/cubic instead of ccp.cubic" in caught.value.message


def test_both_are_reported_at_once() -> None:
    with pytest.raises(Several):
        judge(
            recording(
                *steady(1e6, 1, congestion=b"bbr"), flows=[flow_record(), flow_record("b", sockets=None)]
            )
        )


def test_an_error_of_another_kind_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runs.DATAPATHS, "ebpf", failing(LoadError("load.agent", "no agent")))
    with pytest.raises(LoadError):
        run(SCENARIO, tmp_path / "here")
    stored = json.loads((tmp_path / "here.incomplete" / "metadata.json").read_text())
    assert stored["complete"] is False
    assert stored["error"]["message"] == "no agent"


def test_a_program_of_a_feature_that_fails_is_named_with_its_words(tmp_path: Path) -> None:
    program = Program(["no-such-command"], tmp_path / "lines", Failure("the feature failed", "mend it"))
    program.process.wait(30)
    with pytest.raises(RunError) as caught:
        program.must_run()
    assert (caught.value.slug, caught.value.fix) == ("run.feature", "mend it")
    assert "no-such-command" in caught.value.why
