from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from broker.embedded import EmbeddedBroker
from broker.errors import BusError
from broker.options import BusOptions, Tls
from ccplane.agent import cli
from ccplane.agent.changes import Which
from ccplane.agent.client import Client
from ccplane.agent.commands import serving
from ccplane.agent.commands.outcome import sentence
from ccplane.agent.commands.tail import line
from ccplane.base.errors import UsageError
from tests.repeating import repeating
from tests.unit.agent.live import FOLD
from tests.unit.agent.test_control import SOURCE, Served, running


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    with running(made):
        yield made


def ccp(served: Served, *arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [*map(str, arguments), "--connect", served.address])


def test_parameters_are_shown_and_set(served: Served) -> None:
    shown = ccp(served, "get")
    assert "mine.beta" in shown.output
    assert "what it does" in shown.output
    assert json.loads(ccp(served, "get", "--json").output)["mine"][0]["high"] == 0.9
    chosen = json.loads(ccp(served, "get", "mine.beta", "rounds", "--json").output)["mine"]
    assert [row["name"] for row in chosen] == ["beta", "rounds"]
    assert "param.unknown_params" in ccp(served, "get", "bta").output
    assert "2 running flows" in ccp(served, "set", "beta=0.8").output
    assert "1 running flow" in ccp(served, "set", "mine.rounds=5", "--flow", 1).output
    assert (served.instance(1).beta, served.instance(1).rounds, served.instance(2).rounds) == (0.8, 5, 3)
    refused = ccp(served, "set", "beta=8")
    assert refused.exit_code == 1
    assert "param.out_of_range" in refused.output


def test_files_are_loaded_and_flows_switched(served: Served, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(SOURCE.replace("class Mine", "class Other"))
    assert "nothing -> " in ccp(served, "load", other).output
    assert "moved 1 flow to other" in ccp(served, "switch", "other", "--flow", 2).output
    assert "moved 0 flows to other" in ccp(served, "switch", "other", "--match", "dport=80").output
    assert "moved 1 flow to mine" in ccp(served, "switch", "mine", "--algorithm", "other").output
    assert "mine is unchanged; the source has not changed" in ccp(served, "load", "mine").output
    served.file.write_text(SOURCE + "\n1 / 0\n")
    refused = ccp(served, "load")
    assert refused.exit_code == 1
    assert "ZeroDivisionError" in refused.output


def test_program_is_replaced_and_the_agent_stopped(served: Served, tmp_path: Path) -> None:
    fold = tmp_path / "fold.ccp"
    fold.write_text(FOLD.replace("Ack.bytes_acked", "Ack.packets_acked"))
    assert "mine/default replaced, 2 flows" in ccp(served, "program", "mine", fold).output
    assert "telemetry.no_bus" in ccp(served, "telemetry", "subscribe", "int_summary").output
    assert "the agent stops" in ccp(served, "stop").output
    while not served.datapath.closed:
        pass


def test_events_are_printed_as_they_come(served: Served) -> None:

    def set_again() -> None:
        served.agent_loop.call(lambda: served.agent_loop.changes.set_params({"beta": 0.6}, Which()))

    with repeating(set_again, 0.01):
        printed = ccp(served, "tail", "-n", "2")
        as_json = ccp(served, "tail", "event", "-n", "1", "--json")
    assert printed.output.count("param:set  mine  name=beta value=0.6") == 2
    assert json.loads(as_json.output)["kind"] == "param:set"


def test_unknown_stream_is_refused(served: Served) -> None:
    result = ccp(served, "tail", "reprot")
    assert result.exit_code == 1
    assert "control.no_stream" in result.output
    assert "`report`" in result.output
    with pytest.raises(UsageError) as caught:
        serving._control(None, None, "none_of_that_name")
    assert caught.value.slug == "control.no_user"


@pytest.mark.parametrize(
    "address",
    ["http://x", "tcp://127.0.0.1", "tcp://:7000", "tcp://h:0", "tcp://h:65535", "tcp://::1:7", "ipc://"],
)
def test_address_that_is_none_is_refused_before_anything_is_done(address: str) -> None:
    for use in (lambda: serving._control(address, None, None), lambda: Client(address)):
        with pytest.raises(UsageError) as caught:
            use()
        assert caught.value.slug == "control.bad_address"


def test_lines_of_all_streams() -> None:
    report: dict[str, Any] = {
        "stream": "report", "flow_id": 7, "t_us": 1_500_000, "cwnd_bytes": 10, "rate_bytes_per_s": 0,
        "missed": 0, "timeout": False, "fold_error": True, "program": 3, "fields": {"acked": 5},
    }  # fmt: skip
    shown = line(report)
    assert shown.startswith("1.500000  report  7  cwnd_bytes=10")
    assert shown.endswith("acked=5")
    assert "timeout" not in shown
    telemetry = {
        "stream": "telemetry", "kind": "int_summary", "sender": "sink", "received_us": 2_000_000,
        "body": {"kind": "int_summary", "latency_us": 4},
    }  # fmt: skip
    assert line(telemetry) == "2.000000  int_summary  sink  latency_us=4"


def test_what_a_reload_did_is_one_sentence() -> None:
    done: dict[str, Any] = {
        "algorithm": "x", "old_sha256": "a" * 64, "new_sha256": "b" * 64, "flows": 1,
        "programs": {"default": "kept"}, "notes": ["n"],
    }  # fmt: skip
    assert sentence(done) == "x: aaaaaaaaaaaa -> bbbbbbbbbbbb, 1 flow; n"
    assert sentence(done | {"new_sha256": "a" * 64, "notes": []}) == "x: loaded the same source again, 1 flow"


def test_brokers_are_named_by_url_or_started() -> None:
    assert serving._broker(None) is None
    assert serving._broker("none") is None
    assert serving._broker("mqtt://a:b@host:99") == BusOptions("host", 99, "a", "b")
    for text, host, port in (
        ("embedded", "127.0.0.1", 1883),
        ("embedded:99", "127.0.0.1", 99),
        ("embedded:127.0.0.2:99", "127.0.0.2", 99),
        ("embedded:[::1]:99", "::1", 99),
        ("embedded:192.0.2.1:99?users=u&acl=a", "192.0.2.1", 99),
        ("embedded:0.0.0.0:99?users=u", "127.0.0.1", 99),
        ("embedded:[::]:99?users=u&cert=c&key=k&ca=a", "::1", 99),
    ):
        broker = serving._broker(text)
        assert isinstance(broker, EmbeddedBroker)
        assert (broker.options.host, broker.options.port) == (host, port)
        assert broker.options.tls == (Tls(Path("a")) if "ca=" in text else None)
    for wrong in ("embedded:x", "embedded:host:99", "embedded?user=u", "embedded:99/x", "http://host"):
        with pytest.raises(BusError) as caught:
            serving._broker(wrong)
        assert caught.value.slug == "bus.bad_url"


@pytest.mark.parametrize("address", ["192.0.2.1", "0.0.0.0", "[::]", "[2001:db8::1]"])
def test_a_broker_that_others_reach_wants_users(address: str) -> None:
    with pytest.raises(BusError) as caught:
        serving._broker(f"embedded:{address}:99")
    assert caught.value.slug == "bus.users_required"
    assert "?users=" in caught.value.fix
