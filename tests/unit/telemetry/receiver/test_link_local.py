"""Peers with link-local addresses, which need an interface: in a network namespace with such an address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.peers import resolve
from telemetry.receiver.receiver import Options, Receiver
from telemetry.schema import canonical

SCRIPT = """
import json, socket, sys, threading
from telemetry.receiver.peers import resolve
from telemetry.receiver.receiver import Options, Receiver

here = socket.getaddrinfo("fe80::a1%lo", 5001, type=socket.SOCK_STREAM)[0][4]
listener = socket.socket(socket.AF_INET6)
listener.bind(here)
listener.listen()
near = socket.socket(socket.AF_INET6)
near.connect(here)
far, _ = listener.accept()

def taken(signals):
    near.sendall(bytes(10_000))
    assert len(far.recv(10_000, socket.MSG_WAITALL)) == 10_000
    seen.append([(one.peer, one.address, one.rtt_samples, one.goodput_bytes_per_s) for one in signals])
    if len(seen) == 20:
        receiver.request_stop()

seen = []
peers = tuple(map(resolve, sys.argv[2:]))
options = Options(peers, window_ms=50, interval_ms=50, probe=sys.argv[1], probe_ms=10, kernel_probe=False)
receiver = Receiver(options, taken)
receiver.run()
print(json.dumps(seen))
"""


def measured(*arguments: str) -> list[Any]:
    """Return peer, address, RTT samples and goodput of the signals in a namespace of its own."""
    setup = "ip link set lo up && ip address add fe80::a1/64 dev lo nodad && exec"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f'{setup} "$@"', "sh", sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(signal) for signals in json.loads(done.stdout) for signal in signals]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network namespace")
@pytest.mark.parametrize("peers", [["fe80::a1%lo"], []])
def test_link_local_peers_are_measured(peers: list[str]) -> None:
    signals = measured("icmp", *peers)
    assert {signal[:2] for signal in signals} == {("fe80::a1", "fe80::a1")}
    assert max(goodput or 0 for *_, goodput in signals) > 0
    assert (max(samples or 0 for _, _, samples, _ in signals) > 0) == bool(peers)


@pytest.mark.parametrize(
    ("peers", "why"),
    [
        (["fe80::a1"], "an interface"),
        (["fe80::a1%no-such"], "no-such"),
        (["fe80::a1%lo", "fe80::a1%1"], "twice"),
    ],
)
def test_peers_whose_link_is_not_clear_are_refused(peers: list[str], why: str) -> None:
    with pytest.raises(ReceiverError) as caught:
        Receiver(Options(tuple(map(resolve, peers)), kernel_probe=False), lambda signals: None).close()
    assert caught.value.slug == "receiver.bad_peer"
    assert why in str(caught.value)


def test_canonical_addresses_have_no_interface() -> None:
    assert canonical("FE80::A1%eth0") == "fe80::a1"
    assert resolve("fe80::0:a1%lo") == "fe80::a1%lo"
