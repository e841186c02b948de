"""Our configuration of Mosquitto: who may say what, TLS, and the secrets that `make-secrets.sh` makes."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
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


def test_retained_messages_of_one_user_fill_neither_the_memory_nor_the_bus(mosquitto: Mosquitto) -> None:
    """A user may write any number of topics of its own: 400 MB are sent, and 256 MiB fit."""
    process = psutil.Process(mosquitto.pid)
    refused, acknowledged = threading.Event(), threading.Semaphore(0)
    flooder = raw_client(mosquitto.plain.as_user("ben", USERS["ben"]))
    flooder.on_publish = lambda *_: acknowledged.release()
    flooder.on_disconnect = lambda *_: refused.set()
    for number in range(6_000):
        flooder.publish(f"ccp/v1/signal/ben/{number}", bytes(65_536), 1, retain=True)
        wait_until(lambda: acknowledged.acquire(timeout=0.1) or refused.is_set(), "an answer")
        if refused.is_set():
            break
    flooder.loop_stop()
    assert refused.is_set()
    assert process.memory_info().rss < 384 << 20
    with (
        listening(mosquitto.plain.as_user("host-a", USERS["host-a"]), "regime_decision") as inbox,
        speaking(mosquitto.plain.as_user("recv", USERS["recv"])) as bus,
    ):
        bus.publish(RegimeDecision(regime="SHARED", peer="10.0.0.1"))
        assert [sample.sender for sample in gather(inbox, 1)] == ["recv"]


def test_every_limit_of_the_broker_is_set() -> None:
    settings = (SETTINGS / "mosquitto.conf").read_text()
    listeners = settings.split("\nlistener ")[1:]
    assert all(len(re.findall(r"^max_connections [1-9]\d*$", one, re.MULTILINE)) == 1 for one in listeners)
    for limit in (
        "max_queued_messages",
        "max_queued_bytes",
        "max_packet_size",
        "memory_limit",
        "persistent_client_expiration",
    ):
        assert re.search(rf"^{limit} [1-9]\d*h?$", settings, re.MULTILINE), limit


class Script:
    """`make-secrets.sh` in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "secrets"
        self._script = shutil.copy(SETTINGS / "make-secrets.sh", folder)

    def run(self, *users: str, passwords: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._script, "localhost", *users], input=passwords, text=True, capture_output=True, check=False
        )

    def users(self) -> list[str]:
        return [line.partition(":")[0] for line in (self.folder / "passwords").read_text().splitlines()]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_more_users_are_added_to_those_there(script: Script) -> None:
    assert script.run("anna", passwords="one\n").returncode == 0
    before = (script.folder / "server.crt").read_bytes()
    assert script.run("ben", "anna", passwords="two\nthree\n").returncode == 0
    assert script.users() == ["ben", "anna"]
    lines = (script.folder / "passwords").read_text().splitlines()
    assert all(line.partition(":")[2].startswith("$7$") for line in lines)
    assert (script.folder / "server.crt").read_bytes() == before
    assert (script.folder / "passwords").stat().st_mode & 0o077 == 0
    refused = script.run("carl", passwords="a:b\n")
    assert refused.returncode == 1
    assert "colon" in refused.stderr


def test_a_user_replaces_only_the_user_of_the_same_name(script: Script) -> None:
    """Host names contain dots, which match any character in a regular expression."""
    others = ("host-a", "hostXa", "host.b")
    assert script.run(*others, passwords="1\n2\n3\n").returncode == 0
    assert script.run("host.a", passwords="4\n").returncode == 0
    assert script.users() == [*others, "host.a"]
    for name in (".*", "a b", "a:b", "", "-a\n", "ä"):
        refused = script.run(name, passwords="5\n")
        assert refused.returncode == 1, name
        assert "cannot add the user" in refused.stderr, name
    assert script.users() == [*others, "host.a"]


def expiring(script: Script, *, days: int) -> None:
    """Replace the broker's certificate by one for a number of days, of the same authority."""
    folder = script.folder
    for command in (
        "x509 -x509toreq -in server.crt -signkey server.key -copy_extensions copyall -out again.csr",
        "x509 -req -in again.csr -CA ca.crt -CAkey ca.key -copy_extensions copyall -out short.crt "
        f"-days {days}",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    (folder / "short.crt").replace(folder / "server.crt")


def test_certificates_that_expire_soon_are_named_and_renewed(script: Script) -> None:
    assert script.run().stderr == ""
    authority = (script.folder / "ca.crt").read_bytes()
    expiring(script, days=59)
    assert "secrets/server.crt expires on" in script.run().stderr
    (script.folder / "server.crt").unlink()
    assert script.run().stderr == ""
    assert (script.folder / "ca.crt").read_bytes() == authority  # clients keep their ca.crt
    with EmbeddedBroker(certificate=script.folder / "server.crt", key=script.folder / "server.key") as broker:
        options = replace(broker.options, host="localhost", tls=Tls(ca_file=script.folder / "ca.crt"))
        with speaking(fast(options)) as bus:
            bus.wait_connected(PATIENCE_S)


@pytest.mark.parametrize(("days", "warns"), [(59, True), (61, False)])
def test_clients_warn_of_a_certificate_that_expires_soon(
    script: Script, caplog: pytest.LogCaptureFixture, days: int, warns: bool
) -> None:
    script.run()
    expiring(script, days=days)
    with EmbeddedBroker(certificate=script.folder / "server.crt", key=script.folder / "server.key") as broker:
        options = replace(broker.options, host="localhost", tls=Tls(ca_file=script.folder / "ca.crt"))
        with speaking(fast(options)) as bus:
            bus.wait_connected(PATIENCE_S)
    assert ("certificate" in caplog.text and "expires in" in caplog.text) == warns
