"""The demo on the chain: one flow, in-band telemetry, and an algorithm that uses it.

The flow runs `int_cubic`, which at first treats a loss on the air as any other loss. During the flow a
parameter changes so that losses on the air no longer count as congestion.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from broker.options import PORT
from ccplane.agent import Client
from ccplane.agent.control import control_socket
from ccplane.agent.messages import Flows
from experiments.agent_process import PIN_DIR, running_agent
from experiments.mininet_wifi.chain import Chain, Port
from experiments.mininet_wifi.errors import WifiError
from experiments.mininet_wifi.findings import AIR_ID, WIRE_ID, Phase
from experiments.mininet_wifi.recorded import PACKETS, RECEIVED
from experiments.netlab import process, start_iperf3
from experiments.netlab.brokers import broker_on

ALGORITHM: Final = "int_cubic"
PHASES: Final[tuple[Phase, ...]] = ("cubic", "keep")
PATIENT: Final = ("--heartbeat-timeout", "2000", "--no-realtime")
"""Options of the agent for a slow, busy processor; the demo needs no reactions within a millisecond."""
INTERVAL_MS: Final = 100
"""Time between summaries: half a round trip; an emulated processor cannot handle more summaries [ms]."""
CLIENT_PORT: Final = 40_000
SPARE_S: Final = 10
"""Additional duration of the transfer; its phases begin only when the agent has the flow [s]."""
SETTLE_S: Final = 2.0
"""Time after a change before windows count: some round trips [s]."""

CAPTURED_BYTES: Final = 400
"""Captured part of each packet, larger than all its headers [bytes]."""
CAPTURED_PKTS: Final = 1000

TIMEOUT_S: Final = 180.0
"""Start timeout of a program; an emulated processor of a busy machine needs most of it [s]."""


def record(chain: Chain, folder: Path, *, loss_ratio: float, phase_s: int) -> None:
    """Run the demo, and record it in a folder; `recorded` reads it.

    Raises:
        CcpError: If a part of the demo cannot start.
    """
    chain.lose(loss_ratio)
    with (
        broker_on(chain.broker),
        agent_at_source(chain, [ALGORITHM]) as client,
        running_nodes(chain),
        capturing(chain.sink, folder / PACKETS),
    ):
        _transfer(chain, client, phase_s, folder / RECEIVED)


@contextlib.contextmanager
def agent_at_source(chain: Chain, algorithms: Sequence[str]) -> Iterator[Client]:
    """Run an agent that controls sta1's flows and listens to the broker; yield its client.

    Raises:
        LoadError: `load.agent`.
    """
    url = f"mqtt://{chain.broker_for_source}:{PORT}"
    options = [*PATIENT, "--broker", url, "--sender", "sta1"]
    with (
        running_agent(*algorithms, *options, enter=chain.source.host.enter),
        Client(control_socket(PIN_DIR)) as client,
    ):
        yield client


@contextlib.contextmanager
def running_nodes(chain: Chain) -> Iterator[None]:
    """Run `ccp telemetry node` on the devices of a chain for the length of a block.

    Raises:
        WifiError: `wifi.no_node`.
    """
    source = ["source", "--wireless", "--max-nodes", "2", "--to-prefix", f"{chain.sink.host.ipv6}/128"]
    broker = f"mqtt://{chain.broker_for_sink}:{PORT}"
    sink = ["sink", "--interval", str(INTERVAL_MS), "--broker", broker, "--sender", "sta2"]
    sink += ["--from-prefix", f"{chain.source.host.ipv6}/128"]
    roles = [
        (chain.source, source),
        (chain.wire, ["transit", "--node-id", str(WIRE_ID)]),
        (chain.air, ["transit", "--node-id", str(AIR_ID)]),
        (chain.sink, sink),
    ]
    ccp = str(Path(sys.executable).with_name("ccp"))
    with contextlib.ExitStack() as stack:
        nodes = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "nodes.yaml"
        nodes.write_text(f"{AIR_ID}: {{name: ap2, queue_is_unlimited: true}}  # after the wire\n")
        sink += ["--nodes", str(nodes)]
        started = []
        for port, role in roles:  # together: on an emulated processor each needs some seconds
            node = port.host.popen(
                [ccp, "telemetry", "node", port.device, "--role", *role], stderr=subprocess.PIPE
            )
            stack.callback(process.end, [node])
            started.append((port, node))
        for port, node in started:
            _wait_for(node, f"{port.device}: node", "wifi.no_node", "the INT node did not start", port)
        yield


@contextlib.contextmanager
def capturing(port: Port, file: Path) -> Iterator[None]:
    """Capture the headers of packets with hop-by-hop options, which the telemetry source adds.

    Raises:
        WifiError: `wifi.no_capture`.
    """
    command = ["tcpdump", "-i", port.device, "-s", str(CAPTURED_BYTES), "-c", str(CAPTURED_PKTS)]
    running = port.host.popen(
        [*command, "-Z", "root", "-w", str(file), "ip6[6] == 0"], stderr=subprocess.PIPE
    )
    try:
        _wait_for(running, "listening", "wifi.no_capture", "tcpdump did not start to capture", port)
        yield
    finally:
        process.end([running])


def _wait_for(running: process.Process, words: str, slug: str, what: str, port: Port) -> None:
    assert running.stderr is not None
    late = threading.Timer(TIMEOUT_S, running.kill)
    late.start()
    try:
        line = running.stderr.readline()
    finally:
        late.cancel()
    if words not in line:
        where = f"host {port.host.name}, device {port.device}"
        done = process.finish(running, timeout_s=TIMEOUT_S, where=where, check=False)
        why = f"it exited with {process.status(done.returncode)}: {(line + done.stderr).strip()[-2000:]}"
        raise WifiError(slug, what, where, why, "run the command manually in the host")


def _transfer(chain: Chain, client: Client, phase_s: int, file: Path) -> None:
    with (
        file.open("w") as rows,
        client.stream(kinds=("telemetry", "report")) as stream,
        start_iperf3(
            chain.source.host,
            chain.sink.host,
            congestion=f"ccp.{ALGORITHM}",
            family="ipv6",
            duration_s=phase_s * len(PHASES) + SPARE_S,
            client_port=CLIENT_PORT,
        ) as transfer,
    ):
        own = flow_id(client)
        for phase in PHASES:
            client.params["wireless_loss"] = phase
            begin_s = time.monotonic()
            while time.monotonic() < begin_s + phase_s and transfer.running:
                row = stream.next(0.5)
                if row is not None and own in (row.get("flow_id"), *row.get("flow_ids", ())):
                    row |= {"phase": phase, "settled": time.monotonic() > begin_s + SETTLE_S}
                    rows.write(json.dumps(row) + "\n")
        if not transfer.running:  # iperf3 failed: raise its error
            transfer.wait()


def flow_id(client: Client) -> int:
    """Wait for the sending flow, and return its number.

    Raises:
        WifiError: `wifi.no_flow`.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        # Not as a table: importing pandas takes seconds on an emulated processor, while the flow runs.
        for flow in client.ask(Flows()):
            if flow["src_port"] == CLIENT_PORT:
                return int(flow["flow_id"])
        time.sleep(0.2)
    raise WifiError(
        "wifi.no_flow",
        f"the agent has no flow from port {CLIENT_PORT}",
        "host sta1",
        f"iperf3 did not connect within {TIMEOUT_S:g} s, or could not choose ccp.{ALGORITHM}",
        "check whether plain iperf3 works over the chain",
    )
