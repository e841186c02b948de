"""Many connections over loopback: `python -m scripts.vm.connections CC PORT IDLE SENDING`.

The clients choose the congestion control CC. IDLE connections echo a message whenever a line is written to
standard input; SENDING further ones, to PORT, send all the time. Each line is answered with one line of JSON:
connections, those lost so far, bytes sent so far.
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

MESSAGE: Final = bytes(1000)
PAUSE_S: Final = 0.1
"""Pause between two messages of a connection that sends."""
PATIENCE_S: Final = 120.0
"""Time after which a silent connection counts as lost; an emulated processor is slow [s]."""

Pair = tuple[socket.socket, socket.socket]


def main() -> None:
    """Open the connections, and answer lines until the input ends."""
    congestion, (port, idle, sending) = sys.argv[1].encode(), map(int, sys.argv[2:])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sent = Sent()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", port)) as other:
        pairs = [_connection(one, congestion) for _ in range(idle)]
        pairs += [_connection(other, congestion) for _ in range(sending)]
    for pair in pairs[idle:]:
        threading.Thread(target=sent.send, args=pair, daemon=True).start()
    lost = 0
    print(json.dumps({"connections": len(pairs), "lost": 0, "sent_bytes": 0}), flush=True)
    for _ in sys.stdin:
        sent_bytes, end_s = sent.sent_bytes, time.monotonic() + PATIENCE_S
        broken = [pair for pair in pairs[:idle] if not _echoes(*pair)]
        lost += len(broken)
        pairs[:idle] = [pair for pair in pairs[:idle] if pair not in broken]
        idle -= len(broken)
        while sent.sent_bytes == sent_bytes and time.monotonic() < end_s:
            time.sleep(PAUSE_S)
        found = {"connections": len(pairs), "lost": lost + sent.lost, "sent_bytes": sent.sent_bytes}
        print(json.dumps(found), flush=True)


class Sent:
    """What the sending connections sent.

    Attributes:
        sent_bytes: Bytes that arrived.
        lost: Connections that failed.
    """

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.lost = 0
        self._lock = threading.Lock()

    def send(self, near: socket.socket, far: socket.socket) -> None:
        """Send until the connection fails."""
        while _echoes(near, far):
            with self._lock:
                self.sent_bytes += len(MESSAGE)
            time.sleep(PAUSE_S)
        with self._lock:
            self.lost += 1


def _connection(listener: socket.socket, congestion: bytes) -> Pair:
    near = socket.socket()
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion)
    near.connect(listener.getsockname())
    far, _ = listener.accept()
    for one in (near, far):
        one.settimeout(PATIENCE_S)
    return near, far


def _arrives(near: socket.socket, far: socket.socket) -> bool:
    near.sendall(MESSAGE)
    left = len(MESSAGE)
    while left and (more := len(far.recv(left))):
        left -= more
    return not left


def _echoes(near: socket.socket, far: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        # A flow that never sends would never leave the fallback.
        return _arrives(near, far) and _arrives(far, near)
    return False


class Connections:
    """Connections in processes of their own.

    Attributes:
        pids: The processes' ids.
    """

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self.pids = [one.pid for one in processes]
        self._processes = processes
        self._found = [_answer(one) for one in processes]

    def __len__(self) -> int:
        return sum(found["connections"] for found in self._found)

    def talk(self) -> int:
        """Let each connection echo a message; return how many were lost so far.

        Raises:
            RuntimeError: If no connection sent anything meanwhile.
        """
        before = [found["sent_bytes"] for found in self._found]
        for one in self._processes:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        self._found = [_answer(one) for one in self._processes]
        if any(found["sent_bytes"] <= then for found, then in zip(self._found, before, strict=True)):
            raise RuntimeError("the sending connections stalled")
        return sum(found["lost"] for found in self._found)


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the connections ended with status {process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


@contextlib.contextmanager
def opened(congestion: str, port: int, *kinds: tuple[Sequence[str], int, int]) -> Iterator[Connections]:
    """Open connections for a block.

    Args:
        congestion: Congestion control of the clients.
        port: Port of the sending connections; 0 for any.
        *kinds: A command prefix, the number of idle connections, and the number of sending ones.
    """
    with contextlib.ExitStack() as around:
        processes = []
        for prefix, idle, sending in kinds:
            numbers = map(str, (port, idle, sending))
            words = [*prefix, sys.executable, "-m", "scripts.vm.connections", congestion, *numbers]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            around.enter_context(process)
            around.callback(process.kill)
            processes.append(process)
        yield Connections(processes)


if __name__ == "__main__":
    main()
