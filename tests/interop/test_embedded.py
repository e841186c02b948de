"""An embedded broker as processes: how it starts, what it refuses, when it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker.embedded import EmbeddedBroker
from broker.errors import BusError
from broker.users import password_line
from experiments.netlab.process import children_of
from experiments.netlab.sockets import free_port
from telemetry.schema import ReceiverSignal
from tests.interop.brokers import USERS, Secrets, fast, listens, wait_until
from tests.interop.test_brokers import gather, listening, raw_client, speaking


def test_it_takes_a_free_port_and_gives_it_back() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        ports = {one.options.port, other.options.port}
        assert len(ports) == 2
        assert all(listens(port) for port in ports)
        with listening(one.options, "receiver_signal") as inbox, speaking(one.options) as bus:
            bus.publish(ReceiverSignal(peer="10.0.0.1"))
            assert len(gather(inbox, 1)) == 1
    assert one.pid is None
    assert not any(listens(port) for port in ports)


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BusError) as caught:
        EmbeddedBroker(taken.getsockname()[1]).start()
    assert caught.value.slug == "bus.port_taken"


def test_a_password_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BusError) as caught:
        EmbeddedBroker(users=tmp_path / "users").start()
    assert caught.value.slug == "bus.no_password_file"


def test_a_line_that_mosquitto_cannot_use_costs_that_user_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as a hash of Mosquitto 2.1 where an older one runs."""
    users = tmp_path / "users"
    users.write_text(
        "anna:$argon2id$v=19$m=65536,t=1,p=4$c2FsdA$aGFzaA\n" + password_line("ben", USERS["ben"])
    )
    with EmbeddedBroker(users=users) as broker:
        raw_client(broker.options.as_user("ben", USERS["ben"])).disconnect()
        if "for user anna" not in caplog.text:
            wait_until(lambda: "for user anna" in caplog.text, "the warning")


@pytest.mark.parametrize("text", [None, "pattern read ccp/#\nallow all\n"])
def test_an_access_list_that_cannot_be_used_is_refused(
    tmp_path: Path, secrets: Secrets, text: str | None
) -> None:
    acl = tmp_path / "acl"
    if text is not None:
        acl.write_text(text)
    with pytest.raises(BusError) as caught:
        EmbeddedBroker(users=secrets.users, acl=acl).start()
    assert caught.value.slug == "bus.bad_acl"
    assert text is None or "allow" in caught.value.message


def test_a_certificate_without_its_key_is_refused(secrets: Secrets) -> None:
    with pytest.raises(BusError) as caught:
        EmbeddedBroker(certificate=secrets.certificate, key=secrets.ca).start()
    assert caught.value.slug == "bus.tls_files"


def test_a_process_that_dies_at_once_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(BusError) as caught:
        EmbeddedBroker().start()
    assert caught.value.slug == "bus.broker_died"


def test_without_mosquitto_the_error_names_the_package() -> None:
    code = """
from broker import embedded
embedded._FOLDERS = "/nonexistent"
embedded.EmbeddedBroker.from_text("embedded")
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "bus.no_mosquitto" in done.stderr
    assert "apt-get install mosquitto" in done.stderr


def is_alive(pid: int | None) -> bool:
    """Whether a process runs; an orphan that ended may wait for its new parent to see it."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


PARENT = """
import sys, time
from broker.embedded import EmbeddedBroker
broker = EmbeddedBroker(int(sys.argv[1])).start()
print(broker.pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_its_parent_however_that_ends() -> None:
    port = free_port()
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, str(port)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
        assert listens(port)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        wait_until(lambda: not listens(port), "the end of the broker")
        wait_until(lambda: not is_alive(pid), "the end of Mosquitto")


def test_it_ends_with_its_keeper_and_is_started_again() -> None:
    with EmbeddedBroker() as broker:
        pid = broker.pid
        (keeper,) = children_of(os.getpid())
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: broker.restarts == 1 and listens(broker.options.port), "the restart")
        assert broker.pid != pid
        assert not is_alive(pid)


def test_from_the_command_line_it_says_where_it_listens_and_ends_by_ctrl_c() -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "broker.embedded", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        port = int(process.stdout.readline().rpartition(":")[2])
        assert listens(port)
        process.send_signal(signal.SIGINT)
        process.wait()
    wait_until(lambda: not listens(port), "the end of the broker")


def test_from_the_command_line_users_are_required_on_other_addresses() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "broker.embedded", "--host", "0.0.0.0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "bus.users_required" in done.stderr
    assert "ccp bus user add" in done.stderr


def test_a_broker_that_dies_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker:
        options = fast(broker.options)
        with listening(options, "receiver_signal") as inbox, speaking(options) as bus:
            for death in (1, 2):
                pid = broker.pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda death=death: broker.restarts == death, "the restart")
                assert broker.pid not in (None, pid)
                assert broker.options.port == options.port
                wait_until(
                    lambda death=death: inbox.counters.connection.connects == death + 1, "the way back"
                )
                wait_until(lambda: inbox.ready and bus.connected, "the subscription")
                bus.publish(ReceiverSignal(peer="10.0.0.1", ce_marks=death))
                assert [sample.body.ce_marks for sample in gather(inbox, 1)] == [death]
        assert "exited (signal 9); restarting it" in caplog.text
    port = options.port
    time.sleep(0.5)  # longer than it takes to be started again
    assert not listens(port)


def test_it_is_tried_again_when_its_port_was_taken_meanwhile(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.embedded.RESTART_MIN_S", 0.5)
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        port = broker.options.port
        os.kill(broker.pid, signal.SIGKILL)
        wait_until(lambda: not listens(port), "its end")
        # Within the wait before the restart.
        with socket.create_server(("127.0.0.1", port)):
            wait_until(lambda: "bus.port_taken" in caplog.text, "the failure to start")
        wait_until(lambda: listens(port), "the broker")


def test_ctrl_c_does_not_end_it_before_its_parent() -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        (keeper,) = children_of(os.getpid())
        os.kill(keeper, signal.SIGINT)
        assert os.getpgid(broker.pid) != os.getpgrp()
        time.sleep(0.3)
        assert listens(broker.options.port)
        assert broker.restarts == 0


def test_its_files_are_gone_once_it_runs(
    secrets: Secrets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for folder in tmp_path.parents:
        folder.chmod(folder.stat().st_mode | 0o011)
    with EmbeddedBroker(users=secrets.users) as broker:
        assert broker.pid is not None
        assert Path(f"/proc/{broker.pid}/cwd").readlink().is_relative_to(tmp_path)
        assert [*tmp_path.iterdir()] == []


def test_it_has_no_rights() -> None:
    with EmbeddedBroker() as broker:
        lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert status["NoNewPrivs"] == ["1"]
    assert int(status["CapEff"][0], 16) == int(status["CapPrm"][0], 16) == 0
    assert "0" not in status["Uid"] + status["Gid"]
    if os.geteuid() == 0:
        assert status["Groups"] == []


def test_who_starts_it_is_a_user_of_it_too(secrets: Secrets) -> None:
    with EmbeddedBroker(users=secrets.users).with_user("host-b") as broker:
        assert broker.options.user == "host-b"
        reader = broker.options.as_user("host-a", USERS["host-a"])
        with (
            listening(reader, "receiver_signal") as inbox,
            speaking(broker.options, sender="host-b") as own,
            speaking(broker.options, sender="recv") as false,
        ):
            false.publish(ReceiverSignal(peer="10.0.0.1"))
            false.flush(5.0)
            own.publish(ReceiverSignal(peer="10.0.0.2"))
            assert [sample.sender for sample in gather(inbox, 1)] == ["host-b"]
    assert EmbeddedBroker().with_user("host-b").options.user is None
