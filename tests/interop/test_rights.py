"""Who may publish what: access lists and users, as ccplane ships and makes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from typer.testing import CliRunner

from broker.embedded import SETTINGS, EmbeddedBroker
from broker.errors import BusError
from broker.users import app, set_passwords
from telemetry.bus import Bus
from tests.interop.brokers import USERS, Secrets, wait_until
from tests.interop.test_brokers import raw_client


def writable(client: mqtt.Client, topics: tuple[str, ...]) -> set[str]:
    """Return to which topics a client may publish, by the answers that it gets."""
    answers: dict[int, bool] = {}
    client.on_publish = lambda _c, _d, mid, reason, _p: answers.update({mid: reason.is_failure})
    sent = {client.publish(topic, b"x", 1).mid: topic for topic in topics}
    wait_until(lambda: len(answers) == len(topics), "the answers")
    return {topic for mid, topic in sent.items() if not answers[mid]}


def test_receivers_speak_of_their_own_path_only(secrets: Secrets, tmp_path: Path) -> None:
    """The list that is shipped as an example, with the names that the tests have."""
    text = (SETTINGS / "acl-paths").read_text()
    text = text.replace("recv-b", "recv").replace("sink-c", "ben").replace("operator", "anna")
    acl = tmp_path / "acl"
    acl.write_text(text)
    with EmbeddedBroker(users=secrets.users, acl=acl) as broker:
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
            client = raw_client(broker.options.as_user(user, USERS[user]))
            assert writable(client, topics) == expected, user
            client.disconnect()
            client.loop_stop()


def test_users_made_without_mosquitto_are_let_in(secrets: Secrets, tmp_path: Path) -> None:
    users = tmp_path / "passwords"
    users.write_text("# kept\n" + secrets.users.read_text())
    done = subprocess.run(
        [sys.executable, "-m", "broker.users", "add", str(users), "recv", "new"],
        input="chan:ged $\nä\n", text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert users.stat().st_mode & 0o077 == 0
    assert users.read_text().startswith("# kept\nanna:")
    with EmbeddedBroker(users=users) as broker:
        options = broker.options
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


def test_an_empty_password_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(BusError) as caught:
        set_passwords(tmp_path / "users", {"anna": "x", "recv": ""})
    assert caught.value.slug == "bus.empty_password"
    assert not (tmp_path / "users").exists()
    with pytest.raises(BusError) as caught:
        set_passwords(tmp_path / "none/users", {"a": "x"})
    assert caught.value.slug == "bus.no_password_file"


def test_users_are_listed_and_removed(tmp_path: Path) -> None:
    users = tmp_path / "users"
    set_passwords(users, {"anna": "a", "ben": "b"})
    assert CliRunner().invoke(app, ["list", str(users)]).stdout.split() == ["anna", "ben"]
    assert CliRunner().invoke(app, ["remove", str(users), "anna"]).exit_code == 0
    assert CliRunner().invoke(app, ["list", str(users)]).stdout.split() == ["ben"]
    refused = CliRunner().invoke(app, ["remove", str(users), "anna"])
    assert refused.exit_code == 1
    assert "bus.unknown_user" in refused.stderr
