"""Our configuration of Mosquitto: who may say what, TLS, and the secrets that `make-secrets.sh` makes."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.embedded import SETTINGS, EmbeddedBroker
from broker.errors import BusError
from broker.options import BusOptions, Tls
from telemetry.bus import Bus
from telemetry.schema import ReceiverSignal, RegimeDecision
from tests.interop.brokers import PATIENCE_S, USERS, Mosquitto, Secrets, fast, wait_until
from tests.interop.test_brokers import gather, listening, raw_client, speaking


@pytest.fixture
def mosquitto(secrets: Secrets) -> Iterator[Mosquitto]:
    broker = Mosquitto(secrets.folder).start()
    yield broker
    broker.stop()


def test_none_speaks_in_the_name_of_others(mosquitto: Mosquitto) -> None:
    options = mosquitto.plain.as_user("ben", USERS["ben"])
    with (
        listening(mosquitto.plain.as_user("host-a", USERS["host-a"]), "regime_decision") as inbox,
        speaking(options, sender="recv") as false,  # Ben says that he is recv
        speaking(options, sender="ben") as true,
    ):
        false.publish(RegimeDecision(regime="SHARED", peer="10.0.0.1"))
        wait_until(lambda: false.counters.connection.refused, "the refusal")
        true.publish(RegimeDecision(regime="SHARED", peer="10.0.0.2"))
        assert [sample.sender for sample in gather(inbox, 1)] == ["ben"]


def test_what_is_not_encrypted_is_for_this_machine_only(mosquitto: Mosquitto) -> None:
    """The whole of 127.0.0.0/8 is here; who listens everywhere answers to all of it."""
    elsewhere = "127.0.0.2"
    socket.create_connection((elsewhere, mosquitto.tls.port), PATIENCE_S).close()
    socket.create_connection(("127.0.0.1", mosquitto.plain.port), PATIENCE_S).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((elsewhere, mosquitto.plain.port), PATIENCE_S)


def test_only_our_topics_are_allowed(mosquitto: Mosquitto) -> None:
    client = raw_client(mosquitto.plain.as_user("ben", USERS["ben"]))
    reasons = []
    answered = threading.Event()

    def published(_client, _data, _mid, reason, _properties) -> None:
        reasons.append(reason.is_failure)
        answered.set()

    client.on_publish = published
    for topic in ("other/ben", "ccp/v2/signal/ben", "ccp/v1/signal/ben/a/b", "ccp/v1/signal/ben/10.0.0.1"):
        answered.clear()
        client.publish(topic, b"x", 1)
        assert answered.wait(PATIENCE_S)
    client.disconnect()
    client.loop_stop()
    assert reasons == [True, True, True, False]


def via_tls(options: BusOptions) -> BusOptions:
    return fast(options.as_user("recv", USERS["recv"]))


@pytest.fixture(params=["embedded", "mosquitto"])
def tls_broker(request: pytest.FixtureRequest, secrets: Secrets) -> Iterator[BusOptions]:
    if request.param == "mosquitto":
        mosquitto = request.getfixturevalue("mosquitto")
        yield via_tls(mosquitto.tls)
        return
    with EmbeddedBroker(users=secrets.users, certificate=secrets.certificate, key=secrets.key) as broker:
        yield via_tls(replace(broker.options, host="localhost", tls=Tls(ca_file=secrets.ca)))


def test_tls_carries_messages(tls_broker: BusOptions) -> None:
    reader = tls_broker.as_user("host-a", USERS["host-a"])
    with listening(reader, "receiver_signal") as inbox, speaking(tls_broker) as bus:
        for number in range(100):
            bus.publish(ReceiverSignal(peer="10.0.0.1", ce_marks=number))
        assert [sample.body.ce_marks for sample in gather(inbox, 100)] == list(range(100))


# After a failed handshake paho-mqtt leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_that_cannot_be_trusted_is_not_spoken_to(tls_broker: BusOptions) -> None:
    bus = Bus(replace(tls_broker, tls=Tls()), sender="recv")
    bus.start()
    try:
        wait_until(lambda: bus.counters.connection.failures >= 2, "the refusals")
        assert not bus.connected
        with pytest.raises(BusError) as caught:
            bus.wait_connected(0)
        assert "certificate" in caught.value.why
    finally:
        bus.stop()


def test_more_users_are_added_to_those_there(tmp_path: Path, secrets: Secrets) -> None:
    script = tmp_path / "make-secrets.sh"
    script.write_bytes((SETTINGS / "make-secrets.sh").read_bytes())
    script.chmod(0o755)

    def run(*users: str, passwords: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script, "localhost", *users], input=passwords, text=True, capture_output=True, check=False
        )

    assert run("anna", passwords="one\n").returncode == 0
    before = (tmp_path / "secrets/server.crt").read_bytes()
    assert run("ben", "anna", passwords="two\nthree\n").returncode == 0
    lines = (tmp_path / "secrets/passwords").read_text().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["ben", "anna"]
    assert all(line.partition(":")[2].startswith("$7$") for line in lines)
    assert (tmp_path / "secrets/server.crt").read_bytes() == before
    assert (tmp_path / "secrets/passwords").stat().st_mode & 0o077 == 0
    refused = run("carl", passwords="a:b\n")
    assert refused.returncode == 1
    assert "colon" in refused.stderr
