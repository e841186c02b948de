"""`ccp regime publish` through a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from broker.embedded import EmbeddedBroker
from ccplane.agent.inbox import Inbox
from experiments.netlab.sockets import free_port
from telemetry.errors import TelemetryError
from telemetry.regime import publish as reporting
from telemetry.regime.commands import app
from telemetry.schema import RegimeDecision, Sample
from tests.interop.brokers import PATIENCE_S, Secrets, TestBroker, running, wait_until

PATH = ("--peer", "10.0.0.1", "--address", "10.0.0.2")


def emit(*words: str) -> Result:
    return CliRunner().invoke(app, ["publish", *words])


@pytest.fixture
def broker(secrets: Secrets) -> Iterator[TestBroker]:
    with running(secrets) as broker:
        yield broker


def test_a_decision_reaches_who_listens_and_who_comes_later(broker: TestBroker) -> None:
    way = broker.options("recv")
    url = f"mqtt://{way.user}:{way.password}@{way.host}:{way.port}"
    received: list[Sample] = []
    result = emit("single_owner", *PATH, "--broker", url, "--ttl", "30000", "--reason", "it is quiet")
    assert result.exit_code == 0, result.output
    inbox = Inbox(broker.options("host-a"), sender="host-a", kinds=("regime_decision",))
    inbox.start()
    try:
        wait_until(lambda: received.extend(inbox.drain()) or received, "the decision")
    finally:
        inbox.stop()
    (sample,) = received
    assert isinstance(sample.body, RegimeDecision)
    said = (sample.body.regime, sample.body.peer, sample.body.address, sample.body.reason)
    assert said == ("SINGLE_OWNER", "10.0.0.1", "10.0.0.2", "it is quiet")
    assert sample.body.since_wall_us == pytest.approx(sample.sent_wall_us, abs=PATIENCE_S * 1e6)
    assert sample.sender == "recv"
    assert sample.expires_us is not None
    assert sample.expires_us - sample.received_us <= 30_000_000


def test_the_broker_keeps_the_last_word_on_each_receiver() -> None:
    with EmbeddedBroker() as broker:
        for about in (["--address", "10.0.0.2"], ["--address", "fd00::2"], []):
            result = emit("SHARED", "--peer", "10.0.0.1", *about, "--broker", str(broker.options))
            assert result.exit_code == 0, result.output
        inbox = Inbox(broker.options, sender="host-a", kinds=("regime_decision",))
        inbox.start()
        received: list[Sample] = []
        try:
            wait_until(lambda: received.extend(inbox.drain()) or len(received) == 3, "all decisions")
        finally:
            inbox.stop()
    assert {sample.sender for sample in received} == {"publish-10.0.0.2", "publish-fd00--2", "publish-host"}


def test_a_broker_that_refuses_is_an_error(broker: TestBroker) -> None:
    with pytest.raises(TelemetryError) as caught:
        reporting.publish_once(
            broker.options("recv"), "another", RegimeDecision(regime="SHARED", peer="10.0.0.1"), None
        )
    assert caught.value.slug == "regime.not_reported"
    assert "does not allow `another` to publish" in str(caught.value)


def test_no_broker_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "CONNECT_S", 0.1)
    result = emit("SHARED", *PATH, "--broker", f"mqtt://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "bus.not_connected" in result.output
