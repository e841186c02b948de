from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ccplane.agent.events import Event
from ccplane.base.errors import CcpError, LoadError, Several
from experiments.errors import RunError
from experiments.events import SetParam
from experiments.features.rtcp import FEATURE, live
from experiments.runs import steering, tables
from experiments.runs.artifacts import reports
from experiments.runs.recording import Recording
from experiments.runs.variants import Variant, congestion_of, variants_of
from experiments.scenario import FlowSpec, Scenario, SocketSwitch
from experiments.sweep import PlannedRun
from experiments.traffic.spec import Quic
from tests.unit.experiments.recorded import NETNS, START_US, flow_record, recording
from tests.unit.experiments.test_run import SCENARIO

OVER_QUIC = FlowSpec("f0", "sender", "receiver", "rtcp/cubic", traffic=Quic((1000,)))
SENDER, RECEIVER = ("10.78.0.1", "fd78::1"), ("10.78.0.2", "fd78::2")


def scenario(*flows: tuple[str, dict[str, Any]], **changes: Any) -> Scenario:
    given = tuple(
        FlowSpec(f"f{i}", "sender", "receiver", name, params) for i, (name, params) in enumerate(flows)
    )
    return SCENARIO.replace(flows=given, **changes)


def test_flows_name_the_kernels_under_r_tcp_with_its_options() -> None:
    params = {"probe_every_rounds": 25, "probe_gain_ratio": 0.1, "observe": True}
    asked = scenario(("rtcp/cubic", {**params, "record": True}), ("rtcp/bbr", params), ("cubic", {}))
    asked.validate()
    assert [congestion_of(flow.algorithm, None) for flow in asked.flows[:2]] == ["rtcp_cubic", "rtcp_bbr"]
    assert [one.algorithm for one in variants_of(asked).all] == ["cubic"]
    assert PlannedRun("", {}, 0, scenario(("rtcp/bbr", {}))).takes_turns
    assert not PlannedRun("", {}, 0, scenario(("kernel/bbr", {}))).takes_turns


@pytest.mark.parametrize(
    ("asked", "slug", "where"),
    [
        (scenario(("rtcp/reno", {})), "unknown_algorithm", "flows[0].algorithm"),
        (SCENARIO.replace(flows=(OVER_QUIC,)), "unknown_algorithm", "flows[0].algorithm"),
        (scenario(("rtcp/bbr", {"eta": 20})), "bad_param", "flows[0].params.eta"),
        (scenario(("rtcp/bbr", {"floor_pkts": "many"})), "bad_param", "flows[0].params.floor_pkts"),
        (scenario(("rtcp/bbr", {"loss_ratio": 2})), "bad_param", "flows[0].params.loss_ratio"),
        (scenario(("rtcp/bbr", {"record": 1})), "bad_param", "flows[0].params.record"),
        (
            scenario(("rtcp/bbr", {"record": True}), ("rtcp/cubic", {"observe": True})),
            "bad_param",
            "flows[1].params",
        ),
        (
            scenario(("rtcp/bbr", {}), events=(SetParam(1, "floor_pkts", 2, flow="f0"),)),
            "bad_param",
            "events[0].param",
        ),
        (
            scenario(("kernel/bbr", {}), switches=(SocketSwitch("sender", single="rtcp/bbr"),)),
            "unknown_algorithm",
            "switches[0].single",
        ),
    ],
)
def test_what_cannot_be_is_reported(asked: Scenario, slug: str, where: str) -> None:
    with pytest.raises(CcpError) as caught:
        asked.validate()
    errors = caught.value.errors if isinstance(caught.value, Several) else (caught.value,)
    assert [(one.slug, one.where) for one in errors] == [(f"scenario.{slug}", where)]


def test_it_is_reported_the_options_and_where_acks_go(tmp_path: Path) -> None:
    plain = scenario(("kernel/cubic", {}), ("rtcp/cubic", {}))
    assert live.arguments_of(plain, tmp_path) == []
    params = {"observe": True, "probe_gain_ratio": 0.1}
    recorded = scenario(("rtcp/bbr", params), ("rtcp/bbr", {**params, "record": True}))
    assert live.arguments_of(recorded, tmp_path) == [
        "--param",
        "observe=true",
        "--param",
        "probe_gain_ratio=0.1",
        "--record",
        str(tmp_path / "acks"),
    ]


def test_nothing_is_attached_for_others(tmp_path: Path) -> None:
    assert not FEATURE.serves(SCENARIO)
    assert reports(SCENARIO, tmp_path)[FEATURE.name] == ()


def test_one_that_fails_is_reported_with_its_words(tmp_path: Path) -> None:
    program = live.attach(tmp_path / "lines.jsonl", "--param", "eta=20")
    with pytest.raises(RunError) as caught:
        program.wait_ready()
    assert caught.value.slug == "run.feature"
    assert "eta" in caught.value.why


def stated(tmp_path: Path, *lines: dict[str, Any]) -> Recording:
    kept = recording({"t_us": START_US}, flows=[flow_record()])
    kept.addresses = {"sender": SENDER, "receiver": RECEIVER}
    file = tmp_path / "rate-limits-kernel.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    kept.reported = {FEATURE.name: (file,)}
    return kept


def test_acks_are_put_with_their_flow(tmp_path: Path) -> None:
    kept = stated(tmp_path)
    own, other = (f"{SENDER[0]}-{port}-{RECEIVER[0]}-5201.csv.gz" for port in (1000, 4000))
    for name in (own, other):
        (tmp_path / name).touch()
    live.sort_acks(kept, tmp_path)
    assert (tmp_path / "flow" / own).exists()
    assert (tmp_path / other).exists()


def verdict(state: str, **fields: Any) -> dict[str, Any]:
    given = {"kind": "verdict", "t_mono_us": START_US + 1_500_000, "netns": NETNS, "client": RECEIVER[0]}
    given |= {"bucket_bytes": 700_000, "rate_bytes_per_s": 250_000, "tokens_bytes": 0, "active_flows": 1}
    return given | {"state": state} | fields


def test_the_table_has_what_became_of_clients_of_the_run(tmp_path: Path) -> None:
    kept = stated(
        tmp_path,
        {"kind": "attached", "t_mono_us": START_US, "names": []},
        verdict("capped"),
        verdict("gone", t_mono_us=START_US + 1_000_000, client=RECEIVER[1]),
        verdict("capped", netns=NETNS + 1),
        verdict("capped", client="192.0.2.1"),
    )
    event = Event("rate_limit:changed", "r_tcp_bbr3", SimpleNamespace(src_addr=SENDER[0]), t_us=START_US)
    event.detail.update(verdict("raised", t_mono_us=START_US))
    agents = tmp_path / "rate-limits-agent.jsonl"
    agents.write_bytes(FEATURE.line_of(event))
    kept.reported = {FEATURE.name: (*kept.reported[FEATURE.name], agents)}
    found = tables.made(kept)["rate_limits"]
    assert found["state"].tolist() == ["raised", "gone", "capped"]
    assert found["t_s"].tolist() == [0.0, 1.0, 1.5]
    for column in ("sender", "receiver", "flow"):
        assert set(found[column]) == {column}
    assert set(found["rate_bytes_per_s"]) == {250_000}


def test_where_several_flows_go_to_a_client_the_row_is_none_of_other(tmp_path: Path) -> None:
    kept = stated(tmp_path, verdict("capped"))
    kept.flows.append(flow_record("other"))
    assert tables.made(kept)["rate_limits"]["flow"].tolist() == [None]


def test_a_run_without_r_tcp_has_an_empty_table(tmp_path: Path) -> None:
    kept = recording({"t_us": START_US}, flows=[flow_record()])
    tables.write(kept, tmp_path)
    assert not (tmp_path / "rate_limits.parquet").exists()
    assert tables.read(tmp_path, "rate_limits").empty


def test_an_algorithm_that_is_the_kernels_only_is_refused_for_quic_flows(tmp_path: Path) -> None:
    variant = Variant("r_tcp_cubic", "r_tcp_cubic", {}, "quic")
    with open(tmp_path / "log", "wb") as log, pytest.raises(LoadError) as caught:
        steering.Steering([variant], log, None, str(tmp_path / "agent"), datapath="quic")
    assert caught.value.slug == "load.extension"
    assert "kernel datapath" in caught.value.fix
