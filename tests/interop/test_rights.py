"""Who may say and hear what: the same access lists give the same rights at both brokers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from broker.embedded import EmbeddedBroker
from broker.errors import BusError
from broker.options import BusOptions
from broker.users import set_passwords
from telemetry.bus import Bus
from tests.interop.brokers import CONFIGURATION, PATIENCE_S, USERS, Mosquitto, Secrets, running, wait_until
from tests.interop.test_brokers import raw_client

TRICKY = """\
# Of clients without user, of whom there are none here.
topic readwrite nobody/#

user anna
topic read shelf/#
topic deny shelf/hidden/#
topic write desk/+/in
topic desk/both
topic readwrite with space/a b

user ben
topic deny own/ben/secret
topic write own/ben/secret
topic #

pattern read public/#
pattern deny public/%u/#
pattern readwrite own/%u/#
pattern write client/%c
pattern write 50%/%u
"""

TOPICS = (
    "shelf/a",
    "shelf",
    "shelf/hidden",
    "shelf/hidden/a",
    "desk/a/in",
    "desk/in",
    "desk/both",
    "with space/a b",
    "nobody/a",
    "public/a",
    "public/anna/a",
    "public/ben",
    "own/anna/a",
    "own/anna",
    "own/ben/a",
    "own/ben/secret",
    "client/client-of-anna",
    "client/client-of-ben",
    "50%/anna",
    "other",
)


@pytest.fixture(params=["embedded", "mosquitto"])
def options(request: pytest.FixtureRequest, secrets: Secrets, tmp_path: Path) -> Iterator[BusOptions]:
    """A broker with the tricky list."""
    yield from with_list(request.param, secrets, tmp_path, TRICKY)


def with_list(kind: str, secrets: Secrets, folder: Path, text: str) -> Iterator[BusOptions]:
    acl = folder / "acl"
    acl.write_text(text)
    if kind == "embedded":
        with EmbeddedBroker(users=secrets.users, acl=acl) as broker:
            yield broker.options
        return
    mosquitto = Mosquitto(secrets.folder)
    configuration = mosquitto.configuration.read_text()
    assert "acl_file acl\n" in configuration
    mosquitto.configuration.write_text(configuration.replace("acl_file acl\n", f"acl_file {acl}\n"))
    mosquitto.start()
    try:
        yield mosquitto.plain
    finally:
        mosquitto.stop()


def connected(options: BusOptions, user: str) -> mqtt.Client:
    return raw_client(options.as_user(user, USERS[user]), client_id=f"client-of-{user}")


def writable(client: mqtt.Client, topics: tuple[str, ...]) -> set[str]:
    """Return to which topics a client may publish, by the answers that it gets."""
    answers: dict[int, bool] = {}
    client.on_publish = lambda _c, _d, mid, reason, _p: answers.update({mid: reason.is_failure})
    sent = {client.publish(topic, b"x", 1).mid: topic for topic in topics}
    wait_until(lambda: len(answers) == len(topics), "the answers")
    return {topic for mid, topic in sent.items() if not answers[mid]}


EXPECTED_WRITE = {
    "anna": {
        "desk/a/in", "desk/both", "with space/a b", "own/anna/a", "own/anna", "client/client-of-anna",
        "50%/anna",
    },
    "ben": set(TOPICS) - {"own/ben/secret"},
}  # fmt: skip
EXPECTED_READ = {
    "anna": {
        "shelf/a", "shelf", "desk/both", "with space/a b", "public/a", "public/ben", "own/anna/a", "own/anna",
    },
    "ben": set(TOPICS) - {"own/ben/secret"},
}  # fmt: skip


@pytest.mark.parametrize("user", ["anna", "ben"])
def test_what_may_be_published_when_a_list_says_so(options: BusOptions, user: str) -> None:
    client = connected(options, user)
    try:
        assert writable(client, TOPICS) == EXPECTED_WRITE[user]
    finally:
        client.disconnect()
        client.loop_stop()


@pytest.mark.parametrize("user", ["anna", "ben"])
def test_what_is_delivered_when_a_list_says_so(options: BusOptions, user: str) -> None:
    """Anna and Ben together may publish all topics but one; what a reader may not read does not come."""
    came: list[str] = []
    reader, writer = connected(options, user), connected(options, "ben" if user == "anna" else "anna")
    subscribed: list[int] = []
    reader.on_message = lambda _c, _d, message: came.append(message.topic)
    reader.on_subscribe = lambda _c, _d, _m, reasons, _p: subscribed.extend(r.value for r in reasons)
    try:
        reader.subscribe("#", 1)
        wait_until(lambda: subscribed, "the subscription")
        assert subscribed == [1]
        sent = writable(writer, TOPICS) | writable(reader, TOPICS)
        readable = EXPECTED_READ[user] & sent
        wait_until(lambda: set(came) >= readable, "the messages")
        reader.publish("own/anna/a" if user == "anna" else "other", b"end", 1)
        wait_until(lambda: len(came) > len(readable), "the last message")
        assert set(came) == readable
    finally:
        for client in (reader, writer):
            client.disconnect()
            client.loop_stop()


def mosquitto_pub(options: BusOptions, user: str, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "mosquitto_pub", "-V", "5", "-h", options.host, "-p", str(options.port), "-u", user,
            "-P", USERS[user], *more,
        ],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["embedded", "mosquitto"])
def test_receivers_speak_of_their_own_path_only(kind: str, secrets: Secrets, tmp_path: Path) -> None:
    """The list that is shipped as an example, with the names that the tests have."""
    text = (CONFIGURATION / "acl-paths").read_text()
    text = text.replace("recv-b", "recv").replace("sink-c", "ben").replace("operator", "anna")
    for options in with_list(kind, secrets, tmp_path, text):
        may = {
            "recv": {"ccp/v1/status/recv", "ccp/v1/signal/recv/192.0.2.1", "ccp/v1/regime/recv/192.0.2.1"},
            "ben": {"ccp/v1/status/ben", "ccp/v1/int/ben"},
            "host-a": {"ccp/v1/status/host-a", "ccp/v1/param/host-a", "ccp/v1/event/host-a"},
            "anna": set(),
        }
        others = {
            "ccp/v1/signal/recv/192.0.2.9",
            "ccp/v1/signal/recv/host",
            "ccp/v1/param/recv",
            "ccp/v1/int/recv",
        }
        topics = tuple(sorted(others.union(*may.values())))
        for user, expected in may.items():
            client = connected(options, user)
            assert writable(client, topics) == expected, user
            client.disconnect()
            client.loop_stop()


def test_refusals_have_a_reason_and_are_logged(
    secrets: Secrets, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for options in with_list("embedded", secrets, tmp_path, TRICKY):
        for _ in range(20):
            refused = mosquitto_pub(options, "anna", "-q", "1", "-t", "other", "-m", "x")
            assert "Not authorized" in refused.stderr
        subscribe = subprocess.run(
            [
                "mosquitto_sub", "-V", "5", "-h", options.host, "-p", str(options.port), "-u", "anna",
                "-P", USERS["anna"], "-t", "secret/#", "-W", "5",
            ],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert "denied" in subscribe.stderr
        wait_until(lambda: "may not publish to" in caplog.text, "the log")
        time.sleep(0.2)
        lines = [r.message for r in caplog.records if "may not publish" in r.message]
        # Each has a client name of its own, and the user is the same.
        assert len(lines) == 1
        assert '"anna"' in lines[0]
        assert '"other"' in lines[0]


def test_messages_of_mosquitto_s_clients_pass(secrets: Secrets) -> None:
    with EmbeddedBroker(users=secrets.users) as broker:
        options = broker.options
        sent = mosquitto_pub(
            options, "recv", "-q", "1", "-r", "-t", "ccp/v1/regime/recv/a", "-m", "kept",
            "-D", "publish", "message-expiry-interval", "60", "-D", "publish", "content-type", "text/plain",
            "-D", "publish", "user-property", "key", "value",
        )  # fmt: skip
        assert (sent.returncode, sent.stderr) == (0, "")
        sent = mosquitto_pub(options, "recv", "-r", "-t", "ccp/v1/int/recv", "-m", "x" * 60_000)
        assert sent.returncode == 0
        heard = subprocess.run(
            [
                "mosquitto_sub", "-V", "5", "-h", options.host, "-p", str(options.port), "-u", "host-a",
                "-P", USERS["host-a"], "-q", "1", "-t", "ccp/v1/#", "-C", "2", "-W", "20",
                "-F", "%t %q %r %E %C %P %p",
            ],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        long, kept = sorted(heard.stdout.splitlines())
        topic, qos, flag, expiry, content_type, properties, payload = kept.split(" ")
        assert (topic, qos, flag, content_type) == ("ccp/v1/regime/recv/a", "1", "1", "text/plain")
        assert 0 < int(expiry) <= 60
        assert (properties, payload) == ("key:value", "kept")
        assert long.startswith("ccp/v1/int/recv 0 1 ")
        assert long.endswith("x" * 60_000)
        old = mosquitto_pub(options, "recv", "-V", "311", "-t", "ccp/v1/int/recv", "-m", "x")
        assert "protocol" in old.stderr.lower()
        twice = mosquitto_pub(options, "recv", "-q", "2", "-t", "ccp/v1/int/recv", "-m", "x")
        assert "QoS not supported" in twice.stderr


@pytest.mark.parametrize("kind", ["embedded", "mosquitto"])
def test_users_made_without_mosquitto_are_let_in(kind: str, secrets: Secrets, tmp_path: Path) -> None:
    users = tmp_path / "secrets/passwords"
    shutil.copytree(secrets.folder, tmp_path, dirs_exist_ok=True)
    users.write_text("# kept\n" + users.read_text())
    done = subprocess.run(
        [sys.executable, "-m", "broker.users", str(users), "recv", "new"],
        input="chan:ged $\nä\n", text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert users.stat().st_mode & 0o077 == 0
    assert users.read_text().startswith("# kept\nanna:")
    with running(kind, Secrets(tmp_path)) as broker:
        options = broker.options("anna")
        for user, password in (("anna", USERS["anna"]), ("recv", "chan:ged $"), ("new", "ä")):
            raw_client(options.as_user(user, password)).disconnect()
        bus = Bus(options.as_user("recv", USERS["recv"]), sender="recv")
        bus.start()
        wait_until(lambda: bus.counters.connection.failures, "the refusal of the old password")
        bus.stop()


def test_a_user_that_cannot_be_a_sender_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BusError) as caught:
        set_passwords(tmp_path / "users", {"a/b": "x"})
    assert caught.value.slug == "bus.bad_name"
    with pytest.raises(BusError) as caught:
        set_passwords(tmp_path / "none/users", {"a": "x"})
    assert caught.value.slug == "bus.no_password_file"
