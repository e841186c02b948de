"""The embedded broker as a process: how it starts, what it refuses, when it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from broker.embedded import EmbeddedBroker
from broker.errors import BusError
from telemetry.schema import ReceiverSignal
from tests.interop.brokers import Secrets, free_port, listens, wait_until
from tests.interop.test_brokers import gather, listening, speaking


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


@pytest.mark.parametrize("text", [None, "anna\n", "anna:secret\n"])
def test_a_password_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str | None) -> None:
    users = tmp_path / "users"
    if text is not None:
        users.write_text(text)
    with pytest.raises(BusError) as caught:
        EmbeddedBroker(users=users).start()
    assert caught.value.slug == "bus.no_password_file"
    assert text is None or "line 1" in caught.value.message


def test_a_certificate_without_its_key_is_refused(secrets: Secrets) -> None:
    with pytest.raises(BusError) as caught:
        EmbeddedBroker(certificate=secrets.certificate, key=secrets.ca).start()
    assert caught.value.slug == "bus.tls_files"


def test_a_process_that_dies_at_once_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(BusError) as caught:
        EmbeddedBroker().start()
    assert caught.value.slug == "bus.broker_died"


def test_a_missing_native_module_is_told() -> None:
    code = (
        "import sys; sys.modules['ccp_base._native'] = None; from broker.embedded import main; main(port=0)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert '"bus.not_built"' in done.stdout


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
    assert pid != parent.pid


def test_by_hand_it_says_where_it_listens() -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "broker.embedded", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert '"listening"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait()
