"""Checks of required kernel features in a machine: `python -m scripts.vm.smoke_inside`, as root.

Each step prints a line; the first failure ends the program with its error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from ccp_algs import registry
from ccplane.agent.algorithms import compile_programs
from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.agent.features.rtcp.native import trials
from ccplane.base.errors import CcpError
from ccplane.datapath import ebpf
from ccplane.datapath.protocol import DatapathView
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab.sockets import available_congestion_controls, set_congestion
from tests.kernel import ecn_marks

BPF_FS: Final = Path("/sys/fs/bpf")
WAIT_S: Final = 30.0
MSS_BYTES: Final = 1448
FIRST_BYTES: Final = 100 * MSS_BYTES
THEN_BYTES: Final = 150 * MSS_BYTES
ECN_PAIRS: Final = ((0, 1), (1, 2), (3, 2), (3, 3))
"""Settings of `tcp_ecn` at client and server."""
T = TypeVar("T")
ALGORITHM: Final = """
from ccp_algs import Algorithm

class Smoke(Algorithm):
    program = "(def (Report (volatile acked 0))) (when true (:= Cwnd {window_bytes}) (fallthrough))"
"""


class SmokeError(Exception):
    """A step failed."""


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print that a step succeeded, with its duration."""
    begin_s = time.monotonic()
    yield
    print(f"smoke: {time.monotonic() - begin_s:5.1f} s  {name}", flush=True)


def main() -> int:
    """Run all steps; return the exit status."""
    try:
        with step("all parts load (see `ccp doctor`)"):
            _every_part_loads()
        with step(f"the verifier accepts the programs of {len(registry.names())} algorithms"):
            _verify_all()
        with tempfile.TemporaryDirectory() as folder:
            _a_flow_through(Path(folder) / "smoke.py")
        with step("modes of ECN, and marks"):
            _ecn()
        with step("nothing is left in the kernel"):
            _nothing_is_left()
    except (CcpError, SmokeError) as error:
        print(f"smoke: failed\n{error}", file=sys.stderr)
        return 1
    return 0


def _every_part_loads() -> None:
    refused = [part for part in [*ebpf.try_load(), *trials()] if not part.ok]
    if refused:
        raise SmokeError("\n".join(f"{part.name}: {part.detail}" for part in refused))


def _verify_all() -> None:
    for name in registry.names():
        for program in compile_programs(registry.get(name), ebpf.compile_program).values():
            ebpf.verify(program)


def _a_flow_through(file: Path) -> None:
    file.write_text(ALGORITHM.format(window_bytes=FIRST_BYTES))
    with contextlib.ExitStack() as stack:
        with step("an agent loads the datapath"):
            stack.enter_context(running_agent(str(file)))
        client = stack.enter_context(Client(control_socket(PIN_DIR)))
        view = ebpf.observe(PIN_DIR)
        with step("a flow has the window of its algorithm"):
            port = stack.enter_context(_sending("ccp"))
            flow_id = _wait("no flow", lambda: _flow_to(view, port))
            _wait_for_window(view, flow_id, FIRST_BYTES)
        with step("a flow has another window after the algorithm is edited"):
            file.write_text(ALGORITHM.format(window_bytes=THEN_BYTES))
            client.reload()
            _wait_for_window(view, flow_id, THEN_BYTES)
            before = view.stats(flow_id)
            if before is None:
                raise SmokeError("the flow has ended")
            _wait("no more acknowledgments", lambda: _acked(view, flow_id) > before.bytes_acked)


def _ecn() -> None:
    if wrong := ecn_marks.differences(ECN_PAIRS):
        raise SmokeError("\n".join(wrong))


@contextlib.contextmanager
def _sending(congestion: str) -> Iterator[int]:
    """Send over loopback without a limit; yield the receiver's port."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MSS_BYTES)
        set_congestion(sender, congestion)
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        works = (_send(sender), _take(receiver))
        threads = [threading.Thread(target=_forever, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            for one in (sender, receiver):
                one.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            receiver.close()


def _send(sender: socket.socket) -> Callable[[], object]:
    chunk = bytes(1 << 16)
    return lambda: sender.send(chunk)


def _take(receiver: socket.socket) -> Callable[[], object]:
    return lambda: receiver.recv(1 << 16)


def _forever(work: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):  # until the socket is shut down
        while work():
            pass


def _flow_to(view: DatapathView, port: int) -> int | None:
    return next((info.flow_id for info in view.flows() if info.dst_port == port), None)


def _acked(view: DatapathView, flow_id: int) -> int:
    stats = view.stats(flow_id)
    return 0 if stats is None else stats.bytes_acked


def _wait_for_window(view: DatapathView, flow_id: int, window_bytes: int) -> None:
    def has_it() -> bool:
        stats = view.stats(flow_id)
        if stats is None or stats.fallback:
            return False
        return 0 <= window_bytes - stats.cwnd_bytes < stats.mss_bytes  # whole packets

    try:
        _wait(f"the flow does not have a window of {window_bytes} bytes", has_it)
    except SmokeError as error:
        stats = view.stats(flow_id)
        found = stats and f"window {stats.cwnd_bytes}, packet {stats.mss_bytes}, fallback {stats.fallback}"
        raise SmokeError(f"{error}: {found}") from error


def _wait(otherwise: str, look: Callable[[], T]) -> T:
    end_s = time.monotonic() + WAIT_S
    while not (found := look()):
        if time.monotonic() > end_s:
            raise SmokeError(f"{otherwise} after {WAIT_S:g} s")
        time.sleep(0.05)
    return found


def _nothing_is_left() -> None:
    names = [name for name in available_congestion_controls() if name.startswith(("ccp", "rtcp_"))]
    names += os.listdir(BPF_FS)
    if names:
        raise SmokeError(f"left in the kernel: {', '.join(names)}")


if __name__ == "__main__":
    sys.exit(main())
