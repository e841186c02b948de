"""Contexts that hold as long as a host needs them, and nodes of in-band telemetry that are such."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator

from experiments.netlab.host import Host
from telemetry.inband.node import REFRESH_S, InterfaceNode, NodeSpec


@contextlib.contextmanager
def held(
    host: Host,
    context: contextlib.AbstractContextManager[object],
    meanwhile: Callable[[], float] | None = None,
) -> Iterator[None]:
    """Enter and leave a context in a thread of a host's; pyroute2 has sockets of its own in each thread.

    Args:
        host: Whose thread.
        context: What to enter.
        meanwhile: What to call until it is left; it returns when to call it again [s].
    """
    entered, ready, ended = (threading.Event() for _ in range(3))

    def hold() -> None:
        try:
            with context:
                entered.set()
                ready.set()
                wait_s = REFRESH_S
                while not ended.wait(wait_s):
                    if meanwhile is not None:
                        wait_s = meanwhile()
        finally:
            ready.set()

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        running = thread.submit(host.call, hold)
        ready.wait()
        try:
            if entered.is_set():
                yield
        finally:
            ended.set()
            running.result()


@contextlib.contextmanager
def readers_on(hosts: Iterable[Host], pin_dir: str) -> Iterator[None]:
    """Take echoes of the path out of ACKs that come to hosts, for their sockets.

    Args:
        hosts: The hosts.
        pin_dir: Directory of the datapath of the agent that has their flows.

    Raises:
        NodeError: As `InterfaceNode`.
    """
    with contextlib.ExitStack() as stack, open(os.devnull, "wb") as nowhere:
        for host in hosts:
            spec = NodeSpec(roles=("reader",), pin_dir=pin_dir)
            reader = InterfaceNode(host.interfaces[0].name, spec, nowhere.fileno())
            stack.enter_context(held(host, reader))
        yield
