"""An agent at its end of CCP's Unix sockets, and datapaths in Rust that speak to it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ccp_algs import Algorithm
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.description import Description, assembled, plan
from ccplane.datapath.ccp_unix.datapath import CcpUnixDatapath
from ccplane.datapath.ccp_unix.programs import Limits

ROOT = Path(__file__).parents[2]


def example(package: str, name: str) -> Path:
    """An example of a crate, built."""
    path = f"{Path.home()}/.cargo/bin:{os.environ['PATH']}"
    build = ["scripts/cargo.sh", "build", "--release", "--package", package, "--example", name]
    subprocess.run(build, cwd=ROOT, env={**os.environ, "PATH": path}, check=True)
    return ROOT / "native/target/release/examples" / name


def agent_at(path: Path) -> socket.socket:
    """A socket in an agent's place."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(os.fspath(path))
    return made


@contextmanager
def agent(
    path: Path, limits: Limits, *algorithms: str | type[Algorithm], **params: object
) -> Iterator[AgentLoop]:
    """An agent that runs beside the test."""
    agent_loop = assembled(plan(Description(algorithms, params)), CcpUnixDatapath(path, limits))
    thread = threading.Thread(target=agent_loop.run)
    thread.start()
    try:
        yield agent_loop
    finally:
        agent_loop.request_stop()
        thread.join(30)
    assert not thread.is_alive()
    assert agent_loop.counters.algorithm_errors == 0
