from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ccplane.agent.events import Event
from ccplane.base.errors import CcpError, Several
from experiments.errors import RunError
from experiments.netlab.host import Belongings, Host
from experiments.netlab.links import Interface
from experiments.run import judge
from experiments.runs import regime_tables, regimes, tables
from experiments.runs.program import Failure, Program
from experiments.runs.recording import Recording, RegimeFiles
from experiments.runs.session import may_become
from experiments.runs.variants import variants_of
from experiments.scenario import FlowSpec, ReceiverAgent, Scenario, SocketSwitch
from tests.unit.experiments.recorded import START_US, flow_record, recording, steady
from tests.unit.experiments.test_run import SCENARIO

SENDER, RECEIVER = ("10.78.0.1", "fd78::1"), ("10.78.0.2", "fd78::2")
BROKER = "mqtt://127.0.0.1:1"


def with_regimes(*switches: SocketSwitch, **fields: Any) -> Scenario:
    given = {"switches": switches, "receivers": (ReceiverAgent("receiver"),)} | fields
    return SCENARIO.replace(**given)


def problems(scenario: Scenario) -> list[tuple[str, str]]:
    with pytest.raises(CcpError) as caught:
        scenario.validate()
    error = caught.value
    return [(one.slug, one.where) for one in (error.errors if isinstance(error, Several) else (error,))]


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    scenario = with_regimes(
        SocketSwitch("sender", rules=("dst={receiver} dport=5201 -> {receiver}",), stale_ms=500),
        receivers=(ReceiverAgent("receiver", detector={"baseline_ms": 10, "start": "shared"}),),
    )
    scenario.save(tmp_path / "file.yaml")
    assert Scenario.load(tmp_path / "file.yaml") == scenario


@pytest.mark.parametrize(
    ("changed", "slug", "where"),
    [
        ({"receivers": (ReceiverAgent("nobody", peers=("sender",)),)}, "unknown_name", "receivers[0].host"),
        (
            {"receivers": (ReceiverAgent("receiver", peers=("nobody",)),)},
            "unknown_name",
            "receivers[0].peers[0]",
        ),
        ({"receivers": (ReceiverAgent("sender"),)}, "bad_field", "receivers[0].peers"),
        ({"receivers": (ReceiverAgent("receiver"),) * 2}, "duplicate", "receivers"),
        (
            {"receivers": (ReceiverAgent("receiver", detector={"delta": 2}),)},
            "bad_field",
            "receivers[0].detector",
        ),
        (
            {"receivers": (ReceiverAgent("receiver", detector={"cooldown_s": -1}),)},
            "bad_field",
            "receivers[0].detector",
        ),
        ({"switches": (SocketSwitch("nobody"),)}, "unknown_name", "switches[0].host"),
        ({"switches": (SocketSwitch("sender"),) * 2}, "duplicate", "switches"),
        ({"switches": (SocketSwitch("sender", single="dctc"),)}, "unknown_algorithm", "switches[0].single"),
        (
            {"switches": (SocketSwitch("sender", shared="kernel/"),)},
            "unknown_algorithm",
            "switches[0].shared",
        ),
        (
            {
                "switches": (
                    SocketSwitch("sender", rules=("dport=1 -> destination", "dst={nobody} -> destination")),
                )
            },
            "unknown_name",
            "switches[0].rules[1]",
        ),
        ({"switches": (SocketSwitch("sender", rules=("port=1",)),)}, "bad_field", "switches[0].rules[0]"),
    ],
)
def test_what_cannot_be_is_reported(changed: dict[str, Any], slug: str, where: str) -> None:
    assert problems(SCENARIO.replace(**changed)) == [(f"scenario.{slug}", where)]


def test_the_hash_knows_the_sources_of_what_switches_choose(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from ccp_algs.reno import Reno\n\n\nclass Mine(Reno):\n    pass\n")
    before = with_regimes(SocketSwitch("sender", single=str(file))).content_hash()
    file.write_text(f"{file.read_text()}\n# another one\n")
    assert with_regimes(SocketSwitch("sender", single=str(file))).content_hash() != before


def test_a_switch_shares_its_algorithm_with_flows_that_run_it_without_parameters() -> None:
    flows = (
        FlowSpec("a", "sender", "receiver", "dctcp", params={"g": 0.1}),
        FlowSpec("b", "sender", "receiver", "kernel/cubic"),
    )
    scenario = with_regimes(SocketSwitch("sender"), flows=flows)
    variants = variants_of(scenario)
    assert [one.congestion for one in variants.all] == ["ccp.dctcp", "ccp.dctcp_2"]
    assert may_become(scenario, flows[1], variants) == {"ccp.dctcp_2", "cubic"}
    plain = with_regimes(SocketSwitch("sender"), flows=(FlowSpec("a", "sender", "receiver", "dctcp"),))
    assert [one.congestion for one in variants_of(plain).all] == ["ccp.dctcp"]


def test_a_socket_may_become_what_its_switch_chooses_and_nothing_else() -> None:
    rows = steady(1e6, 1, congestion=b"ccp.dctcp")
    judge(recording(*rows, flows=[flow_record(may_become=frozenset({"ccp.dctcp"}))]))
    with pytest.raises(RunError) as caught:
        judge(recording(*rows, flows=[flow_record(may_become=frozenset({"bbr"}))]))
    assert caught.value.slug == "run.wrong_congestion"


def hosts() -> dict[str, Host]:
    found = {name: Host(name, f"ccplab-{name}", Belongings()) for name in ("sender", "receiver")}
    for name, (ipv4, ipv6) in (("sender", SENDER), ("receiver", RECEIVER)):
        found[name].interfaces.append(Interface("eth0", ipv4, ipv6, 1500))
    return found


def option(arguments: list[str], name: str) -> list[str]:
    return [value for key, value in pairwise(arguments) if key == name]


def test_a_receiver_agent_watches_the_addresses_that_send_to_it() -> None:
    flows = tuple(
        FlowSpec(f"f{i}", "sender", "receiver", "kernel/cubic", family=family)  # type: ignore[arg-type]
        for i, family in enumerate(("ipv6", "ipv4", "ipv6"))
    )
    receiver = ReceiverAgent("receiver", mode="paper", detector={"delta_ms": 2.5}, probe_ms=20)
    arguments = regimes.receive_arguments(with_regimes(flows=flows), receiver, hosts(), BROKER)
    assert arguments[:3] == ["telemetry", "receive", "--regime"]
    assert option(arguments, "--peer") == [SENDER[1], SENDER[0]]
    assert option(arguments, "--regime-mode") == ["paper"]
    assert option(arguments, "--param") == ["delta_ms=2.5"]
    assert option(arguments, "--probe-interval") == ["20"]
    assert option(arguments, "--netns") == ["/var/run/netns/ccplab-receiver"]
    assert option(arguments, "--broker") == [BROKER]
    assert "--interval" not in arguments


def test_a_switch_is_reported_names_of_the_kernel_and_addresses() -> None:
    switch = SocketSwitch("sender", stale_ms=300, rules=("dst={receiver} dport=5201 -> {receiver}",))
    variants = variants_of(with_regimes(switch))
    arguments = regimes.apply_arguments(switch, variants, hosts(), BROKER)
    assert arguments[:2] == ["regime", "apply"]
    assert option(arguments, "--single") == ["ccp.dctcp"]
    assert option(arguments, "--shared") == ["cubic"]
    assert option(arguments, "--stale") == ["300"]
    assert option(arguments, "--rule") == [f"dst={RECEIVER[0]} dport=5201 -> {RECEIVER[0]}"]
    assert "--single-rate" not in arguments


def test_one_that_ends_too_early_is_reported_with_its_words(tmp_path: Path) -> None:
    failure = Failure("it failed", "run it by hand", "run.regimes")
    program = Program(["no-such-command"], tmp_path / "lines.jsonl", failure, emits=True)
    with pytest.raises(RunError) as caught:
        program.wait_ready()
    assert caught.value.slug == "run.regimes"
    assert "status 1" in caught.value.why
    assert "no-such-command" in caught.value.why


def signal(t_us: int, **fields: object) -> dict[str, object]:
    given = dict.fromkeys(regime_fields()) | {"kind": "receiver_signal", "peer": SENDER[0]}
    return given | {"t_mono_us": START_US + t_us} | fields


def regime_fields() -> list[str]:
    return [*tables.COLUMNS["receiver_signals"], "flow"]


def decision(t_us: int, regime: str, **fields: object) -> dict[str, object]:
    given = dict.fromkeys([*tables.COLUMNS["regimes"], "flow"])
    given |= {"kind": "regime_decision", "peer": SENDER[0], "regime": regime, "switched": False}
    return given | {"t_mono_us": START_US + t_us} | fields


def reported(directory: Path, *lines: dict[str, object], events: tuple[bytes, ...] = ()) -> Recording:
    kept = recording(*steady(1e6, 1))
    kept.addresses = {"sender": SENDER, "receiver": RECEIVER}
    kept.regimes = RegimeFiles({"receiver": directory / "lines"}, (directory / "events", directory / "none"))
    kept.regimes.receivers["receiver"].write_text("".join(json.dumps(line) + "\n" for line in lines))
    kept.regimes.events[0].write_bytes(b"".join(events))
    return kept


def test_signals_are_of_peers_by_name(tmp_path: Path) -> None:
    of_flow = {"src": SENDER[0], "src_port": 1, "dst": RECEIVER[0], "dst_port": 2}
    lines = (signal(50_000, rtt_p99_us=12_000, ce_marks=3), signal(50_000, flow=of_flow))
    (row,) = tables.made(reported(tmp_path, *lines))["receiver_signals"].to_dict("records")
    assert (row["t_s"], row["host"], row["peer"]) == (0.05, "receiver", "sender")
    assert (row["rtt_p99_us"], row["ce_marks"]) == (12_000, 3)
    assert row["goodput_bytes_per_s"] is None


def test_what_was_seen_stands_alongside_what_was_decided(tmp_path: Path) -> None:
    seen = {"rtt_tail_ms": 12.0, "ce_marks": 3, "retransmits": None, "baseline_ms": 5.0}
    line = decision(100_000, "SHARED", estimate="SHARED", score=1, density=0.6, switched=True, **seen)
    (row,) = tables.made(reported(tmp_path, line, signal(100_000)))["regimes"].to_dict("records")
    assert (row["t_s"], row["host"], row["peer"]) == (0.1, "receiver", "sender")
    assert {name: row[name] for name in seen} == seen
    assert (row["score"], row["density"], row["estimate"], row["regime"]) == (1, 0.6, "SHARED", "SHARED")
    assert row["switched"]


def test_a_line_at_which_a_program_was_killed_is_left_out(tmp_path: Path) -> None:
    kept = reported(tmp_path, decision(0, "SHARED"))
    assert kept.regimes is not None
    with open(kept.regimes.receivers["receiver"], "a") as file:
        file.write('{"kind": "regime_deci')
    assert len(tables.made(kept)["regimes"]) == 1


def info(src_port: int = 1000) -> Any:
    return SimpleNamespace(src_addr=SENDER[0], src_port=src_port, dst_addr=RECEIVER[0], dst_port=5201)


SWITCHED = regime_tables.line_of(Event("regime:switched", "", info(), {"after": "dctcp"}))


def test_events_are_of_flows_by_name_and_in_order(tmp_path: Path) -> None:
    detail = {"before": "cubic", "after": "dctcp", "regime": "SINGLE_OWNER", "reason": "empty"}
    switched = Event("regime:switched", "r_hybrid", info(), detail, t_us=START_US + 2_000)
    refused = Event("regime:refused", "", info(), {"wanted": "dctcp", "why": "no ECN"}, t_us=START_US + 1_000)
    unknown = Event("regime:switched", "", info(999), detail, t_us=START_US)
    of_host = Event("regime:fail_safe", "", None, {"why": "stale", "other": 1}, t_us=START_US + 3_000)
    lines = tuple(map(regime_tables.line_of, (switched, refused, unknown, of_host)))
    frame = tables.made(reported(tmp_path, events=lines))["regime_events"]
    assert frame["t_s"].tolist() == [0.001, 0.002, 0.003]
    assert frame["event"].tolist() == ["regime:refused", "regime:switched", "regime:fail_safe"]
    assert frame["flow"].tolist()[:2] == ["flow", "flow"]
    assert frame["after"].tolist()[:2] == ["dctcp", "dctcp"]
    assert frame["reason"].tolist() == ["no ECN", "empty", "stale"]
    assert frame.iloc[1][["before", "regime", "connection"]].tolist() == ["cubic", "SINGLE_OWNER", 0]
    assert pd.isna(frame["flow"].iloc[2])


def test_all_of_it_is_kept_in_files_and_absent_without_regimes(tmp_path: Path) -> None:
    line = decision(0, "SHARED", estimate="SHARED", score=1, density=1.0, reason="full")
    tables.write(reported(tmp_path, line, signal(0)), tmp_path)
    for name, rows in (("receiver_signals", 1), ("regimes", 1), ("regime_events", 0)):
        frame = tables.read(tmp_path, name)
        assert list(frame) == list(tables.COLUMNS[name])
        assert len(frame) == rows
    nothing = tables.read(tmp_path / "elsewhere", "regimes")
    assert list(nothing) == list(tables.COLUMNS["regimes"])
    assert "regimes" not in tables.made(recording(*steady(1e6, 1)))
